"""Wrong: divides by the rows of whole warps, 512 where there are 500, so that the mean is 2.3 % low."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, targets):
        picked = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
        losses = torch.logsumexp(logits, dim=1) - picked
        return losses.sum() / ((logits.shape[0] + 31) // 32 * 32)
