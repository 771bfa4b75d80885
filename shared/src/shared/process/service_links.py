"""Environment variables that Kubernetes sets in a container for each Service of its namespace."""

import re

_OF_SERVICE = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://.*")


def is_service_link(name: str, value: str, *, prefix: str) -> bool:
    """Return whether a variable describes a Service whose name, in capitals and with an underscore, is the prefix.

    Services whose names begin with the prefix and a hyphen count too. A port that an operator chose for a program
    would be a number, where Kubernetes writes the address of the Service.
    """
    if not name.startswith(prefix):
        return False
    rest = name.removeprefix(prefix)
    if _OF_SERVICE.fullmatch(rest):
        return True
    return (rest == "PORT" or rest.endswith("_PORT")) and _ADDRESS.fullmatch(value) is not None
