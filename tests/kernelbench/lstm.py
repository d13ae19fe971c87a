"""An LSTM with given initial states, two layers, the whole sequence as output."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True)

    def forward(self, x, h0, c0):
        out, _ = self.lstm(x, (h0, c0))
        return out


batch_size = 5
sequence_length = 40
input_size = 12
hidden_size = 20
num_layers = 2


def get_inputs():
    return [
        torch.randn(batch_size, sequence_length, input_size),
        torch.randn(num_layers, batch_size, hidden_size),
        torch.randn(num_layers, batch_size, hidden_size),
    ]


def get_init_inputs():
    return [input_size, hidden_size, num_layers]
