"""The kinds of cases. A kind that needs more than a node's modules adds itself here, too."""

from __future__ import annotations

from campaign.kinds import converge, reset, sweeps
from campaign.task import Kind

KINDS: dict[str, Kind] = {
    "converge": converge.KIND,
    "kill": sweeps.KILL,
    "error": sweeps.ERROR,
    "mode": sweeps.MODE,
    "reset": reset.KIND,
}
