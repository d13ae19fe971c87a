"""Two streams that wait for the caller's, and for which the caller's waits."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = None

    def forward(self, x):
        if self.streams is None:
            self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        y = torch.empty_like(x)
        here = torch.cuda.current_stream()
        for stream, source, target in zip(self.streams, x.chunk(2), y.chunk(2), strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                torch.mul(source, 2.0, out=target)
            here.wait_stream(stream)
        return y
