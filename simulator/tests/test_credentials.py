"""The tokens of the lab's API server."""

from __future__ import annotations

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
