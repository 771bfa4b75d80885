"""Methods that save and restore the state of the chain. Callers can name files of one folder only."""

import re
from dataclasses import dataclass
from pathlib import Path

from localnet.chain.network import Network
from localnet.chain.snapshots import SnapshotInvalid, load_state, save_state
from localnet.json_rpc import RpcError
from localnet.rpc.dispatch import Method
from localnet.rpc.encoding import Json
from localnet.rpc.errors import invalid
from localnet.rpc.params import Params

STATE_UNREADABLE = -32000
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class SavedStates:
    """States in files of ``folder``, by name."""

    folder: Path

    def methods(self) -> dict[str, Method]:
        """Return the methods by name."""
        return {
            "localnet_save": self.save,
            "localnet_restore": self.restore,
            "localnet_statesFolder": lambda _network, _params: str(self.folder),
        }

    def save(self, network: Network, params: Params) -> Json:
        """Write the state of the chain to a file of the folder, replacing an existing one."""
        path = self._path(params)
        try:
            save_state(network.state(), path)
        except OSError as error:
            raise RpcError(STATE_UNREADABLE, f"cannot write {path}: {error.strerror}") from error
        return {"slot": network.slot, "path": str(path)}

    def restore(self, network: Network, params: Params) -> Json:
        """Restore a saved state, which makes a fork."""
        path = self._path(params)
        try:
            network.restore(load_state(path, follow_links=False))
        except OSError as error:
            raise RpcError(STATE_UNREADABLE, f"cannot read {path}: {error.strerror}") from error
        except SnapshotInvalid as error:
            raise RpcError(STATE_UNREADABLE, str(error)) from error
        return {"slot": network.slot, "fork": network.fork}

    def _path(self, params: Params) -> Path:
        name = params.text(0)
        if not _NAME.fullmatch(name):
            raise invalid(
                f"Invalid params: a state has a name, not a path: up to 100 letters, digits, '.', '_' and '-'. "
                f"States are stored in {self.folder}."
            )
        return self.folder / name
