"""Evaluates how much long-context accuracy a quantized KV cache costs.

::

    import kveval

    result = kveval.sweep("nightly.yaml", out="runs/tonight")   # ask every cache setting the same questions
    kveval.gate(result.path, margin=0.02).state                 # "pass", "regression", ...
    kveval.load_run("runs/tonight").records["fp8"]              # every answer, as a pandas table

`__init__.pyi` lists every name. Each is imported when it is first used, so `import kveval` is fast and loads no large
library. The commands of `kveval` call the same functions.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
