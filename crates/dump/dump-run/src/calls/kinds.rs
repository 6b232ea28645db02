//! The kinds of what a program has of MPI. C knows most of it by addresses, and Fortran by numbers.

use std::ffi::c_int;

use mpi::ffi;

/// Numbers of MPI and of the C library are told from addresses, and from each other, by such a word.
const KEYVAL_TAG: usize = 1 << 32;
const BUFFER_TAG: usize = 2 << 32;

/// A kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    Comm,
    Group,
    /// The group of something, which gives the program a copy: MPI's own may be older than the program, and has another address in each
    /// process.
    GivenGroup,
    Type,
    /// The types that another one is made of.
    ContainedTypes,
    /// The two types of a file's view.
    ViewTypes,
    Op,
    Window,
    /// A window whose memory MPI allocates.
    MemoryWindow,
    File,
    Info,
    ErrorHandler,
    Keyval,
    /// A persistent request.
    Request,
    Message,
    /// A message, if there is one.
    ProbedMessage,
    /// The one buffer for messages.
    Buffer,
    /// State that a process has once.
    Process,
}

const _: () = assert!(size_of::<ffi::MPI_Comm>() == size_of::<usize>(), "only OpenMPI's handles are addresses");

unsafe extern "C" {
    fn PMPI_Comm_f2c(number: c_int) -> usize;
    fn PMPI_Group_f2c(number: c_int) -> usize;
    fn PMPI_Type_f2c(number: c_int) -> usize;
    fn PMPI_Op_f2c(number: c_int) -> usize;
    fn PMPI_Win_f2c(number: c_int) -> usize;
    fn PMPI_File_f2c(number: c_int) -> usize;
    fn PMPI_Info_f2c(number: c_int) -> usize;
    fn PMPI_Errhandler_f2c(number: c_int) -> usize;
    fn PMPI_Request_f2c(number: c_int) -> usize;
    fn PMPI_Message_f2c(number: c_int) -> usize;
}

impl MpiKind {
    /// Returns what tells the thing at a place from all others: its address, or a number.
    ///
    /// # Safety
    /// The place has a handle of this kind, as C or Fortran has it.
    pub unsafe fn read(self, place: usize, is_fortran: bool) -> usize {
        // SAFETY: as the caller guarantees; a handle of C is one address, and one of Fortran a number. A number without a thing gives none.
        unsafe {
            match self {
                MpiKind::Process => 0,
                MpiKind::Buffer => BUFFER_TAG,
                MpiKind::Keyval => KEYVAL_TAG | *(place as *const u32) as usize,
                _ if is_fortran => self.find(*(place as *const c_int)),
                _ => *(place as *const usize),
            }
        }
    }

    /// Returns the same for a handle that is an argument. Fortran passes its place.
    ///
    /// # Safety
    /// The argument is a handle of this kind, as C or Fortran passes it.
    pub unsafe fn read_argument(self, argument: usize, is_fortran: bool) -> usize {
        match self {
            MpiKind::Process => 0,
            // SAFETY: as the caller guarantees.
            _ if is_fortran => unsafe { self.read(argument, true) },
            _ => argument,
        }
    }

    /// Returns the address of the thing that Fortran knows by a number.
    fn find(self, number: c_int) -> usize {
        // SAFETY: the program uses MPI, and MPI checks the number.
        unsafe {
            match self {
                MpiKind::Comm => PMPI_Comm_f2c(number),
                MpiKind::Group | MpiKind::GivenGroup => PMPI_Group_f2c(number),
                MpiKind::Type | MpiKind::ContainedTypes | MpiKind::ViewTypes => PMPI_Type_f2c(number),
                MpiKind::Op => PMPI_Op_f2c(number),
                MpiKind::Window | MpiKind::MemoryWindow => PMPI_Win_f2c(number),
                MpiKind::File => PMPI_File_f2c(number),
                MpiKind::Info => PMPI_Info_f2c(number),
                MpiKind::ErrorHandler => PMPI_Errhandler_f2c(number),
                MpiKind::Request => PMPI_Request_f2c(number),
                MpiKind::Message | MpiKind::ProbedMessage => PMPI_Message_f2c(number),
                MpiKind::Keyval | MpiKind::Buffer | MpiKind::Process => 0,
            }
        }
    }
}
