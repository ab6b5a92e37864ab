"""How the lab's programs log in at the API server."""

from __future__ import annotations

import base64

import pytest
import yaml
from miglab.api import Api, ApiError
from miglab.certificates import CONTROLLER_MANAGER, SCHEDULER, Credentials


def test_a_lab_of_before_keeps_its_administrator_s_token(tmp_path):
    credentials = Credentials(tmp_path)
    credentials.tokens.write_text("secret,lab-admin,lab-admin,system:masters\n")
    credentials.ensure()
    assert credentials.token() == "secret"
    tokens = [credentials.token(user) for user in (CONTROLLER_MANAGER, SCHEDULER)]
    assert len({"secret", *tokens}) == 3
    credentials.ensure()
    assert [credentials.token(user) for user in (CONTROLLER_MANAGER, SCHEDULER)] == tokens
    assert "system:masters" not in credentials.tokens.read_text().split("\n", 1)[1]


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_kubeconfig_with_a_client_certificate(tmp_path, spoilt):
    """As kubeadm makes it. A key that is none is an answer, not a traceback."""
    credentials = Credentials(tmp_path)
    credentials.ensure()

    def encoded(path):
        return base64.b64encode(b"none" if spoilt else path.read_bytes()).decode()

    user = {
        "client-certificate-data": encoded(credentials.certificate),
        "client-key-data": encoded(credentials.key),
    }
    cluster = {"server": "https://127.0.0.1:1/k8s/clusters/c1"}
    config = tmp_path / "config"
    config.write_text(yaml.safe_dump({"clusters": [{"cluster": cluster}], "users": [{"user": user}]}))
    with pytest.raises(ApiError, match="not up" if spoilt else "does not answer"):
        Api.from_kubeconfig(config).get("/version")
