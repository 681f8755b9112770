"""Files of live rollouts that another machine makes again: all bits agree, and one that changed is noticed."""

import json

import pytest

from tools.compare.live_rollouts import EXCERPTS, main

RUN = "whisper"


def end_of_first(stored):
    """Place of the state that the first rollout of a file ends in, behind two lengths, the head, the start and the actions."""
    length = int.from_bytes(stored[4:8], "little")
    return 8 + length + sum(json.loads(stored[8 : 8 + length])["bytes"][:2])


@pytest.mark.in_ci
def test_recorded_rollouts_are_made_again_and_a_changed_byte_is_noticed(tmp_path, capsys):
    assert main(["record", str(tmp_path), "--device", "cpu", "--runs", RUN]) == 0
    assert main(["replay", str(tmp_path)]) == 0
    words = capsys.readouterr().out
    assert f"recorded on: CPU\n{RUN}: {EXCERPTS} of {EXCERPTS} rollouts, " in words and words.endswith("end in the same bits\n")
    (file,) = tmp_path.glob("*.excerpts")
    stored = bytearray(file.read_bytes())
    file.write_bytes(stored[:-1])
    assert main(["replay", str(tmp_path)]) == 1
    assert f"{RUN}: cannot be read: " in capsys.readouterr().out
    stored[end_of_first(stored)] ^= 1
    file.write_bytes(stored)
    assert main(["replay", str(tmp_path)]) == 1
    assert f"{RUN}: {EXCERPTS - 1} of {EXCERPTS} rollouts, " in capsys.readouterr().out


def test_a_folder_without_files_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["replay", str(tmp_path)])
    assert "expected files of record, got none" in capsys.readouterr().err
