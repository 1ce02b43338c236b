"""Work for helping processes, which import it from here."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field


@dataclass
class Report:
    """Says who did an item, and how."""

    home: int = field(default_factory=os.getpid)
    exit_at: int = -1
    fail_at: int = -1
    kill_at: int = -1

    def run(self, item: int) -> tuple[int, int]:
        """Return the item and the process; outside of the first process it may end here."""
        away = os.getpid() != self.home
        if away and item == self.exit_at:
            os._exit(3)
        if away and item == self.kill_at:
            os.kill(os.getpid(), signal.SIGTERM)
        if away and item == self.fail_at:
            raise RuntimeError("not here")
        print("a fit may print")
        time.sleep(0.02)
        return item, os.getpid()

    def failed(self, item: int) -> tuple[int, int]:
        """Return the item and no process."""
        return item, -1
