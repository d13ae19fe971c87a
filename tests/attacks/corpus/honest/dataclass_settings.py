"""Settings in a dataclass, an enumeration and a named tuple."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import torch.nn as nn


class Way(enum.Enum):
    ADD = "add"
    MULTIPLY = "multiply"


class Tile(NamedTuple):
    rows: int
    columns: int


@dataclass(frozen=True)
class Settings:
    way: Way = Way.MULTIPLY
    tile: Tile = field(default_factory=lambda: Tile(16, 16))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.settings = Settings()

    def forward(self, x):
        return x * 2.0 if self.settings.way is Way.MULTIPLY else x + x
