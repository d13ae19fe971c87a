#!/usr/bin/env bash
# All that is measured and tested on a GPU, a step at a time, each within its seconds.
#
#     benchmarks/on_gpu.sh FOLDER [STEP ...]      all steps, or these; `benchmarks/on_gpu.sh --list` names them
#     BUDGET=500 benchmarks/on_gpu.sh FOLDER      and no longer than that together
#
# What a step prints is FOLDER/STEP.txt; a line on the terminal says how it ended. Steps that measure times want the GPU
# alone, and a host that does nothing else; with two GPUs, run two of these, with CUDA_VISIBLE_DEVICES and steps of
# their own. PYTHON names another interpreter.
set -u

PYTHON=${PYTHON:-python3}
STEPS=(
    "peaks 60 -m harness device --measure"
    "clock_slow 60 -m benchmarks.clock repeat --workloads us5_slow --runs 4 --jobs 1"
    "server 100 -m benchmarks.latency --runs 3 --pause 8 --ways server"
    "command 45 -m benchmarks.latency --runs 2 --ways command"
    "clock 180 -m benchmarks.clock repeat --workloads us5 us65 --runs 20 --jobs 2"
    "truth 60 -m benchmarks.clock truth --workloads us2 us5 us65"
    "boards 300 -m benchmarks.boards --device cuda"
    "case_studies 300 -m scripts.case_studies --measure --write"
    "profile 300 -m benchmarks.profile all"
    "sanitizing 120 -m benchmarks.sanitizing --jobs 6"
    "verify 300 -m harness verify --all --device cuda"
    "guide 120 -m scripts.solver_guide --device cuda --write"
    "tests 300 -m pytest -q -m gpu tests"
    "attacks_timing 250 -m harness selftest --device cuda --only timing --jobs 4"
    "look_alikes 250 -m harness selftest --device cuda --only honest --jobs 4"
    "attacks_rest 400 -m harness selftest --device cuda --only output --only process --only precision --only own_work --jobs 4"
    "trust_cost 200 -m benchmarks.trust_cost --device cuda --rounds 2"
    "soak 500 -m benchmarks.soak --gradings 200 --device cuda"
    "batch 500 -m benchmarks.batch"
)

[ "${1:-}" = --list ] && { printf '%s\n' "${STEPS[@]%% *}"; exit; }
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1
shift
mkdir -p "$folder" || exit 2
folder=$(realpath "$folder")
cd "$(dirname "$0")/.." || exit 2
ended=0 began=$SECONDS
for step in "$@"; do
    printf '%s\n' "${STEPS[@]%% *}" | grep -qx -- "$step" || { echo "on_gpu.sh: there is no step $step; --list names them" >&2; exit 2; }
done
for step in "${STEPS[@]}"; do
    read -r name seconds arguments <<<"$step"
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    left=$((${BUDGET:-1000000} - SECONDS + began))
    [ "$left" -ge 10 ] || { echo "$name: no time left"; ended=1; continue; }
    from=$SECONDS
    # shellcheck disable=SC2086
    timeout -k 10 "$((seconds < left ? seconds : left))" "$PYTHON" $arguments >"$folder/$name.txt" 2>&1
    code=$?
    echo "$name: exit $code, $((SECONDS - from)) s"
    [ $code -eq 0 ] || ended=1
done
exit $ended
