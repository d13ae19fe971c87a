import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs(M=64, K=4096, N=64):
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
