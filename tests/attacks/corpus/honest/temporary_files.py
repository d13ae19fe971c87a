"""Writes what it tuned to a file and reads it back."""

import json
import pathlib
import tempfile

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.path = pathlib.Path(tempfile.gettempdir(), "tuned.json")

    def forward(self, x):
        if not self.path.exists():
            self.path.write_text(json.dumps({"factor": 2.0}))
        return x * json.loads(self.path.read_text())["factor"]
