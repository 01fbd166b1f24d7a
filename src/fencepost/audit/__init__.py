"""The audit: what was sent, what is in the log and what landed, compared; and receipts for one event."""

import sys
from types import ModuleType
from typing import Any


class _Audit(ModuleType):
    """`fencepost.audit` is this package and the function of that name: Python gives the package as soon as any of its
    modules was imported, so it can be called like the function."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from fencepost.audit.audit import audit

        return audit(*arguments, **named)


sys.modules[__name__].__class__ = _Audit
