//! Real files as streams of blocks, by kind.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// At most this many bytes of a file are used.
const MAX_FILE_BYTES: usize = 8 << 20;

/// A file.
pub struct File {
    /// The kind. Files of one kind are judged together.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Reads the files in the folders of `root`; archives are unpacked.
pub fn files(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for folder in sorted(root)?.iter().filter(|path| path.is_dir()) {
        for path in sorted(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut bytes = if name.ends_with(".tar.xz") {
                Command::new("tar").arg("-xJOf").arg(&path).output()?.stdout
            } else {
                std::fs::read(&path)?
            };
            bytes.truncate(MAX_FILE_BYTES);
            let folder = folder.file_name().unwrap_or_default().to_string_lossy();
            let kind = match &folder[..] {
                "text" | "tab" | "pic" => format!("{folder} {}", name.rsplit('.').next().unwrap_or_default()),
                _ => folder.into_owned(),
            };
            files.push(File { kind, name, bytes });
        }
    }
    Ok(files)
}

fn sorted(folder: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}
