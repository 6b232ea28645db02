//! The form of a rank's checkpoint: an ELF core file. The first buffer of a dump has its headers, each further one a segment.

use object::pod::bytes_of;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian as Little, U16, U32, U64, elf};
use serde::{Deserialize, Serialize};
use terrace_dump::{Error, Result};

use crate::ranges::{Addresses, PAGE_BYTES};

/// The owner and the type of the note with the description.
const NOTE_NAME: &[u8; 8] = b"TERRACE\0";
const NOTE_TYPE: u32 = 0x5445_5252;
/// The owner of the kernel's notes in core files.
const KERNEL_NOTE_NAME: &[u8; 8] = b"CORE\0\0\0\0";
const KERNEL_NOTE_NAME_BYTES: usize = 5;
const NOTE_ALIGNMENT_BYTES: usize = 4;

/// The conditions under which the segments are valid, and where the program continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessDescription {
    /// The number of ranks.
    pub ranks: u32,
    /// The calls at which the program could have paused, up to this one.
    pub calls: u64,
    /// The program and its libraries.
    pub objects: Vec<PlacedObject>,
    /// The places of the program's variables.
    pub variables: Vec<Addresses>,
    pub thread_variables: Vec<Addresses>,
    /// The things of MPI that it has made, by their addresses.
    pub handles: Vec<usize>,
    /// The values that its thread has for the keys of the C library.
    pub thread_values: Vec<(u32, usize)>,
    /// The end of its heap.
    pub heap_end: usize,
    /// The address of its registers.
    pub paused: usize,
    /// The guard of its stack.
    pub stack_guard: usize,
}

/// A program or library, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedObject {
    pub path: String,
    pub base: usize,
    /// Its build id, or a hash of its content.
    pub identity: Vec<u8>,
}

/// Encodes the headers of a core file with these segments.
pub fn encode_head(description: &ProcessDescription, segments: &[Addresses], auxiliary: &[u8]) -> Result<Vec<u8>> {
    let count = u16::try_from(segments.len() + 1).ok().filter(|count| *count < elf::PN_XNUM).ok_or_else(|| {
        Error::Refused(format!("the memory is in {} separate parts; a core file has at most 65,533", segments.len()))
    })?;
    let described = postcard::to_stdvec(description)
        .map_err(|error| Error::Damaged { what: "the description of a process".into(), reason: error.to_string() })?;
    let mut notes = encode_note(KERNEL_NOTE_NAME, KERNEL_NOTE_NAME_BYTES, elf::NT_AUXV, auxiliary);
    notes.extend(encode_note(NOTE_NAME, NOTE_NAME.len(), NOTE_TYPE, &described));
    let headers =
        size_of::<elf::FileHeader64<Little>>() + usize::from(count) * size_of::<elf::ProgramHeader64<Little>>();
    let length = (headers + notes.len()).next_multiple_of(PAGE_BYTES);
    let mut head = Vec::with_capacity(length);
    head.extend_from_slice(bytes_of(&file_header(count)));
    head.extend_from_slice(bytes_of(&program_header(elf::PT_NOTE, headers, 0..notes.len(), 0, NOTE_ALIGNMENT_BYTES)));
    let mut offset = length;
    for segment in segments {
        let access = elf::PF_R | elf::PF_W;
        head.extend_from_slice(bytes_of(&program_header(elf::PT_LOAD, offset, segment.clone(), access, 1)));
        offset += segment.len();
    }
    head.extend(notes);
    head.resize(length, 0);
    Ok(head)
}

/// Decodes the headers.
pub fn decode_head(head: &[u8]) -> Result<(ProcessDescription, Vec<Addresses>)> {
    let wrong = || Error::Refused("the dump has no checkpoints of `terrace dump run`; name another dump".into());
    let read = || -> object::Result<Option<(ProcessDescription, Vec<Addresses>)>> {
        let header = elf::FileHeader64::<Little>::parse(head)?;
        let mut description = None;
        let mut segments = Vec::new();
        for header in header.program_headers(Little, head)? {
            if let Some(mut notes) = header.notes(Little, head)? {
                while let Some(note) = notes.next()? {
                    if note.name_bytes() == NOTE_NAME {
                        description = postcard::from_bytes(note.desc()).ok();
                    }
                }
            } else {
                let start = header.p_vaddr(Little) as usize;
                segments.push(start..start.saturating_add(header.p_memsz(Little) as usize));
            }
        }
        Ok(description.map(|description| (description, segments)))
    };
    read().ok().flatten().ok_or_else(wrong)
}

fn file_header(count: u16) -> elf::FileHeader64<Little> {
    let size = |bytes: usize| U16::new(Little, bytes as u16);
    elf::FileHeader64 {
        e_ident: elf::Ident {
            magic: elf::ELFMAG,
            class: elf::ELFCLASS64,
            data: elf::ELFDATA2LSB,
            version: elf::EV_CURRENT,
            os_abi: elf::ELFOSABI_SYSV,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(Little, elf::ET_CORE),
        e_machine: U16::new(Little, elf::EM_X86_64),
        e_version: U32::new(Little, u32::from(elf::EV_CURRENT)),
        e_entry: U64::new(Little, 0),
        e_phoff: U64::new(Little, size_of::<elf::FileHeader64<Little>>() as u64),
        e_shoff: U64::new(Little, 0),
        e_flags: U32::new(Little, 0),
        e_ehsize: size(size_of::<elf::FileHeader64<Little>>()),
        e_phentsize: size(size_of::<elf::ProgramHeader64<Little>>()),
        e_phnum: U16::new(Little, count),
        e_shentsize: size(size_of::<elf::SectionHeader64<Little>>()),
        e_shnum: U16::new(Little, 0),
        e_shstrndx: U16::new(Little, 0),
    }
}

/// Makes the header of a segment, which is at an offset of the file.
fn program_header(
    kind: u32,
    offset: usize,
    range: Addresses,
    access: u32,
    align: usize,
) -> elf::ProgramHeader64<Little> {
    let number = |number: usize| U64::new(Little, number as u64);
    elf::ProgramHeader64 {
        p_type: U32::new(Little, kind),
        p_flags: U32::new(Little, access),
        p_offset: number(offset),
        p_vaddr: number(range.start),
        p_paddr: number(0),
        p_filesz: number(range.len()),
        p_memsz: number(range.len()),
        p_align: number(align),
    }
}

/// Encodes a note. The name is padded with zeros.
fn encode_note(name: &[u8], name_length: usize, kind: u32, content: &[u8]) -> Vec<u8> {
    let number = |number: usize| U32::new(Little, number as u32);
    let header = elf::NoteHeader64 {
        n_namesz: number(name_length),
        n_descsz: number(content.len()),
        n_type: U32::new(Little, kind),
    };
    let mut note = [bytes_of(&header), name, content].concat();
    note.resize(note.len().next_multiple_of(NOTE_ALIGNMENT_BYTES), 0);
    note
}
