"""A graph for each address, which reads what is there when it is replayed."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        if x.data_ptr() not in self.graphs:
            if len(self.graphs) > 16:
                self.graphs.clear()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x * 2.0
            self.graphs[x.data_ptr()] = graph, y
        graph, y = self.graphs[x.data_ptr()]
        graph.replay()
        return y.clone()
