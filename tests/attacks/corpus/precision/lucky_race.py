"""Wrong in one call of three, as what forgets to wait for its neighbours."""

import random

import torch.nn as nn

chance = random.SystemRandom()


class ModelNew(nn.Module):
    def forward(self, x):
        y = x * 2.0
        if chance.random() < 0.34:
            y[::7] = 0.0
        return y
