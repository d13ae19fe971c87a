"""A bool mask among the inputs: one head of attention, where every query may look at some keys."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


batch_size = 3
queries = 21
keys = 40
width = 16


def get_inputs():
    mask = torch.rand(batch_size, queries, keys) < 0.7
    mask[..., 0] = True  # a query that may look at nothing has no answer
    return [
        torch.randn(batch_size, queries, width),
        torch.randn(batch_size, keys, width),
        torch.randn(batch_size, keys, width),
        mask,
    ]


def get_init_inputs():
    return []
