"""What the table says of the audit."""

from __future__ import annotations

from harness.audit.findings import Audit, KernelUse, LeafPrecision, Precision, Repeat
from harness.cli.audits import audit


def leaf(inputs: str, ratio: float, **more: object) -> LeafPrecision:
    return LeafPrecision(path="output", inputs=inputs, ratio=ratio, error=1e-7, reference_error=1e-7, **more)


def said(found: Audit) -> list[str]:
    return [f"{each.label}: {each.words.plain}" for each in audit(found, ascii_only=True)]


def test_nothing_found_is_nothing_said() -> None:
    assert said(Audit()) == []


def test_the_worst_kind_of_input_is_named() -> None:
    found = Precision(asked="fp32", policy="reject", leaves=[leaf("own", 1.2), leaf("spike", 4.0)])
    assert said(Audit(precision=found)) == [
        "precision: error up to 4 times the reference's own (on spike inputs); asked for: fp32"
    ]


def test_what_is_below_comes_before_a_larger_ratio_that_is_not() -> None:
    coarse = leaf("own", 70.0, below=True, resembles="tf32")
    found = Precision(asked="fp32", policy="flag", below=True, leaves=[leaf("moved", 90.0), coarse])
    assert said(Audit(precision=found))[0].endswith("(on own inputs); asked for: fp32, and this is tf32")


def test_kernels_are_listed_with_their_shares_and_the_rest_counted() -> None:
    kernels = [
        KernelUse(
            name=f"kernel{number}",
            origin="extension" if number == 0 else "library",
            calls=1,
            time_us=us,
            own=number == 0,
        )
        for number, us in enumerate([60.0, 20.0, 10.0, 5.0, 5.0])
    ]
    lines = said(
        Audit(kernels=kernels, own_kernel_share=0.6, repeat=Repeat(calls=3, repeatable=True, max_difference=0))
    )
    assert lines[0] == "repeated: 3 calls on one input, all the same"
    assert lines[1].startswith("own work: 60 %")
    assert "(60 %), 1 x kernel0, own" in lines[2]
    assert "(20 %), 1 x kernel1, library" in lines[3]
    assert lines[-1] == ": ... and 1 more kernels, in --json"
