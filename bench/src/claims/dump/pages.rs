//! The memory of real ranks, as pages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Both programs have this many ranks.
pub const RANK_COUNT: usize = 8;

/// Reads the pages of eight ranks of HPCCG if `TERRACE_DATA` names the folder of real files.
pub fn hpccg() -> Result<Option<Vec<Vec<u8>>>> {
    let Some(data) = std::env::var_os("TERRACE_DATA") else {
        eprintln!("skipped: TERRACE_DATA names no folder of files");
        return Ok(None);
    };
    let dir = tempfile::tempdir()?;
    let archive = Path::new(&data).join("ckpt/hpccg_20x20x20_8ranks.tar.xz");
    let unpacked = Command::new("tar").arg("xJf").arg(&archive).arg("-C").arg(dir.path()).status()?;
    ensure!(unpacked.success(), "tar does not unpack {}", archive.display());
    read(dir.path(), |rank| format!("rank{rank:03}.t001.pages")).map(Some)
}

/// Returns our conjugate-gradient program if it is built (`make mpi`).
pub fn find_program() -> Result<Option<PathBuf>> {
    let program = std::env::current_exe()?.with_file_name("examples").join("cg");
    if !program.exists() {
        eprintln!("skipped: {} is not built; `make mpi` does", program.display());
        return Ok(None);
    }
    Ok(Some(program))
}

/// Dumps the memory of eight ranks of our conjugate-gradient program if it is built.
pub fn conjugate_gradients() -> Result<Option<Vec<Vec<u8>>>> {
    let Some(program) = find_program()? else { return Ok(None) };
    let dir = tempfile::tempdir()?;
    let mut run = Command::new("timeout");
    run.args(["120", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &RANK_COUNT.to_string()]);
    let done = run.arg(program).args(["32", "30"]).arg(dir.path().join("{rank}")).output()?;
    ensure!(done.status.success(), "cg: {}", String::from_utf8_lossy(&done.stderr));
    read(dir.path(), |rank| rank.to_string()).map(Some)
}

fn read(dir: &Path, name: impl Fn(usize) -> String) -> Result<Vec<Vec<u8>>> {
    let file = |rank| std::fs::read(dir.join(name(rank))).with_context(|| format!("rank {rank}"));
    (0..RANK_COUNT).map(file).collect()
}
