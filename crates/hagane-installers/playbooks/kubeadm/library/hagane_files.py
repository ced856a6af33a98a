"""Ansible module: writes several small files in one go, where one task per file would cost a connection each."""

from __future__ import annotations

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: hagane_files
short_description: writes several small files at once
options:
  files:
    description: path, content and mode of each file; missing directories are made with mode 0755
    type: list
    elements: dict
    required: true
"""


def differs(path, content, mode):
    try:
        if os.path.islink(path) or os.stat(path).st_mode & 0o7777 != mode:
            return True
        with open(path, "rb") as stream:
            return stream.read() != content
    except FileNotFoundError:
        return True


def write(path, content, mode):
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=".hagane-", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def main():
    options = {"path": {"type": "str", "required": True}, "content": {"type": "str", "required": True}, "mode": {"type": "str", "default": "0644"}}
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True, "options": options}},
        supports_check_mode=True,
    )
    changed = []
    for entry in module.params["files"]:
        path, content, mode = entry["path"], entry["content"].encode(), int(entry["mode"], 8)
        try:
            if differs(path, content, mode):
                changed.append(path)
                if not module.check_mode:
                    write(path, content, mode)
        except OSError as error:
            module.fail_json(msg=f"failed to write {path}: {error.strerror}")
    module.exit_json(changed=bool(changed), paths=changed)


if __name__ == "__main__":
    main()
