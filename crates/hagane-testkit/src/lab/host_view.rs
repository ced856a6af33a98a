//! What a container host sees of itself: processors and memory of its declared size, and the tunables kubelet insists on.
//!
//! A container shares the machine's /proc, so files made here are laid over the entries in question, inside the host only.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::etc::put;

/// Values kubelet wants to find (it would set them itself, and can not: they belong to the machine).
const TUNABLES: [(&str, &str); 6] = [
    ("sys/vm/overcommit_memory", "1"),
    ("sys/vm/panic_on_oom", "0"),
    ("sys/kernel/panic", "10"),
    ("sys/kernel/panic_on_oops", "1"),
    ("sys/kernel/keys/root_maxkeys", "1000000"),
    ("sys/kernel/keys/root_maxbytes", "25000000"),
];

/// Writes the files below `directory`, named as in /proc.
pub(crate) fn write(directory: &Path, processors: u32, memory_mib: u64) -> Result<()> {
    let own_memory = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let own_processors = fs::read_to_string("/proc/cpuinfo").context("read /proc/cpuinfo")?;
    put(&directory.join("meminfo"), &meminfo(&own_memory, memory_mib * 1024))?;
    put(&directory.join("cpuinfo"), &cpuinfo(&own_processors, processors))?;
    for (name, value) in TUNABLES {
        put(&directory.join(name), &format!("{value}\n"))?;
    }
    Ok(())
}

/// The machine's /proc/meminfo with the host's size: nine tenths free, no swap.
fn meminfo(own: &str, total_kib: u64) -> String {
    let available = total_kib / 10 * 9;
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = match name {
            "MemTotal" => total_kib,
            "MemFree" | "MemAvailable" => available,
            "VmallocTotal" | "VmallocChunk" | "Hugepagesize" | "DirectMap4k" | "DirectMap2M" | "DirectMap1G" => {
                return Some(format!("{name}:{value}\n"));
            }
            _ => 0,
        };
        let unit = if name.starts_with("HugePages_") { "" } else { " kB" };
        Some(format!("{:<16}{value:>8}{unit}\n", format!("{name}:")))
    };
    own.lines().filter_map(line).collect()
}

/// The first processors of the machine's /proc/cpuinfo.
fn cpuinfo(own: &str, processors: u32) -> String {
    let blocks = own.split_inclusive("\n\n").filter(|block| block.starts_with("processor"));
    blocks.take(usize::try_from(processors).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_shows_the_declared_size_and_no_swap() {
        let text = meminfo(
            "MemTotal:       24682284 kB\nMemFree: 1 kB\nSwapTotal:  99 kB\nHugePages_Total: 3\nHugepagesize:       2048 kB\n",
            4_194_304,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "MemTotal:        4194304 kB");
        assert_eq!(lines[2], "SwapTotal:             0 kB");
        assert_eq!(lines[3], "HugePages_Total:       0");
        assert_eq!(lines[4], "Hugepagesize:       2048 kB");
    }

    #[test]
    fn processors_are_cut_to_the_declared_number() {
        let own = "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\nmodel\t: x\n\n";
        assert_eq!(cpuinfo(own, 1), "processor\t: 0\nmodel\t: x\n\n");
    }
}
