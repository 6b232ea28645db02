//! Reads the files of programs and libraries.

use std::fs::{self, File};
use std::path::Path;

use object::read::elf::{Dyn, ElfFile64};
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, ReadCache, RelocationFlags, RelocationTarget, elf};
use terrace_dump::chunk::Hash;
use terrace_dump::{Error, Result};

type Binary<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// A variable of a library that the linker has placed among the program's own.
pub struct CopiedVariable {
    pub name: Vec<u8>,
    /// Its place behind the program's base address.
    pub offset: usize,
    pub length: usize,
}

fn read<T>(path: &Path, read: impl FnOnce(&Binary<'_>) -> object::Result<T>) -> Result<T> {
    let failed = |error: &dyn std::fmt::Display| Error::Refused(format!("reading {}: {error}", path.display()));
    let cache = ReadCache::new(File::open(path).map_err(|error| failed(&error))?);
    ElfFile64::parse(&cache).and_then(|binary| read(&binary)).map_err(|error| failed(&error))
}

/// Returns the names of the libraries that a file needs.
pub fn find_needed(path: &Path) -> Result<Vec<Vec<u8>>> {
    read(path, |binary| {
        let (endian, sections) = (binary.endian(), binary.elf_section_table());
        let Some((entries, strings)) = sections.dynamic(endian, binary.data())? else { return Ok(Vec::new()) };
        let strings = sections.strings(endian, binary.data(), strings)?;
        let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED));
        let name = |entry: &elf::Dyn64<_>| strings.get(entry.val32(endian)?).ok().map(<[u8]>::to_vec);
        Ok(needed.filter_map(name).collect())
    })
}

/// Returns bytes that tell the file from others: its build id, or a hash of its content.
pub fn identify(path: &Path) -> Result<Vec<u8>> {
    match read(path, |binary| Ok(binary.build_id()?.map(<[u8]>::to_vec)))? {
        Some(id) => Ok(id),
        None => {
            let failed = |error| Error::Refused(format!("reading {}: {error}", path.display()));
            Ok(Hash::of(&fs::read(path).map_err(failed)?).0.to_vec())
        }
    }
}

/// Returns the variables of libraries that a program has a copy of.
pub fn find_copied(path: &Path) -> Result<Vec<CopiedVariable>> {
    read(path, |binary| {
        let (Some(relocations), Some(symbols)) = (binary.dynamic_relocations(), binary.dynamic_symbol_table()) else {
            return Ok(Vec::new());
        };
        let mut copied = Vec::new();
        for (address, relocation) in relocations {
            let is_copy = relocation.flags() == RelocationFlags::Elf { r_type: elf::R_X86_64_COPY };
            if let (true, RelocationTarget::Symbol(index)) = (is_copy, relocation.target()) {
                let symbol = symbols.symbol_by_index(index)?;
                let (name, length) = (symbol.name_bytes()?.to_vec(), symbol.size() as usize);
                copied.push(CopiedVariable { name, offset: address as usize, length });
            }
        }
        Ok(copied)
    })
}

/// Returns whether a library defines a symbol.
pub fn defines(path: &Path, name: &[u8]) -> Result<bool> {
    read(path, |binary| {
        let is_it = |symbol: object::read::elf::ElfSymbol<'_, '_, _, _>| {
            symbol.is_definition() && symbol.name_bytes().is_ok_and(|found| found == name)
        };
        Ok(binary.dynamic_symbols().any(is_it))
    })
}
