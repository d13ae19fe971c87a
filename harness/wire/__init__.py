"""What both ends of the wire share: frames, tensors as bytes, masks, digests, the stopwatch's page. Of our code, a
submission's process sees this and `harness/worker/` only."""
