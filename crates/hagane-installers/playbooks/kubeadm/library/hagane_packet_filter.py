"""Ansible module: takes the chains that Kubernetes and its network plugins made out of iptables, and what leads to them."""

from __future__ import annotations

import shlex

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: hagane_packet_filter
short_description: removes iptables chains by prefix, and rules in or to them
options:
  prefixes:
    description: prefixes of the names of chains
    type: list
    elements: str
    required: true
"""


def without(lines, prefixes):
    """What is left of a table listing: a line goes if any word of it that can name a chain has one of the prefixes."""
    kept = []
    for line in lines:
        # A comment is one word, whatever stands in it.
        words = shlex.split(line, comments=False) if line.startswith("-") else line.split()
        named = [words[0][1:]] if line.startswith(":") else [word for before, word in zip(words, words[1:]) if before in ("-A", "-j", "-g")]
        if not any(word.startswith(prefix) for word in named for prefix in prefixes):
            kept.append(line)
    return kept


def main():
    module = AnsibleModule(
        argument_spec={"prefixes": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True
    )
    changed = []
    for family in ("iptables", "ip6tables"):
        save, restore = module.get_bin_path(family + "-save"), module.get_bin_path(family + "-restore")
        if save is None or restore is None:
            continue
        status, listing, error = module.run_command([save])
        if status != 0:
            module.fail_json(msg=f"{family}-save failed: {error.strip()}")
        lines = listing.splitlines()
        kept = without(lines, module.params["prefixes"])
        if kept == lines:
            continue
        changed.append(family)
        if not module.check_mode:
            status, _, error = module.run_command([restore], data="\n".join(kept) + "\n")
            if status != 0:
                module.fail_json(msg=f"{family}-restore failed: {error.strip()}")
    module.exit_json(changed=bool(changed), families=changed)


if __name__ == "__main__":
    main()
