//! The calls of MPI in C that make and free what a program knows by an address. Fortran knows numbers, which are the same in each process.

// The functions have MPI's names and signatures, and pass on their arguments.
#![allow(non_snake_case, clippy::too_many_arguments)]

use std::ffi::{c_char, c_int, c_void};

use mpi::ffi::{self, MPI_Aint, MPI_Comm, MPI_Datatype, MPI_File, MPI_Group, MPI_Info, MPI_Op, MPI_Win};

use crate::handles;

/// Returns the address that a handle of OpenMPI is.
///
/// # Safety
/// The place has a handle.
unsafe fn address_of<H>(place: *const H) -> usize {
    const { assert!(size_of::<H>() == size_of::<usize>(), "only OpenMPI's handles are addresses") };
    // SAFETY: as the caller guarantees; a handle is one address.
    unsafe { place.cast::<usize>().read() }
}

/// Exports functions that note the handle which MPI's own function has put into the last argument.
macro_rules! makers {
    ($($name:ident = $inner:ident($($argument:ident: $kind:ty),*) -> $handle:ty;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* made: *mut $handle) -> c_int {
            // SAFETY: MPI's function gets what this one got. The last argument is a valid place, in which there is a handle afterwards.
            unsafe {
                let code = handles::make(|| ffi::$inner($($argument,)* made));
                if code as u32 == ffi::MPI_SUCCESS {
                    handles::add(address_of(made));
                }
                code
            }
        }
    )* };
}

/// Gives the program a copy of the group: that of the communicator is older than the program, and has another address in each process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_group(comm: MPI_Comm, made: *mut MPI_Group) -> c_int {
    // SAFETY: MPI's functions get what this one got, and the group that the first one has made.
    unsafe {
        let code = ffi::PMPI_Comm_group(comm, made);
        if code as u32 != ffi::MPI_SUCCESS {
            return code;
        }
        let mut own = *made;
        let code = handles::make(|| ffi::PMPI_Group_union(own, ffi::RSMPI_GROUP_EMPTY, made));
        ffi::PMPI_Group_free(&mut own);
        if code as u32 == ffi::MPI_SUCCESS {
            handles::add(address_of(made));
        }
        code
    }
}

/// Exports functions that note that a handle is freed.
macro_rules! removers {
    ($($name:ident = $inner:ident($handle:ty);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: *mut $handle) -> c_int {
            // SAFETY: the caller passes a handle in a valid place, and MPI's function gets it.
            unsafe {
                handles::remove(address_of(handle));
                ffi::$inner(handle)
            }
        }
    )* };
}

makers! {
    MPI_Comm_dup = PMPI_Comm_dup(comm: MPI_Comm) -> MPI_Comm;
    MPI_Comm_create = PMPI_Comm_create(comm: MPI_Comm, group: MPI_Group) -> MPI_Comm;
    MPI_Comm_create_group = PMPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int) -> MPI_Comm;
    MPI_Comm_split = PMPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int) -> MPI_Comm;
    MPI_Comm_split_type = PMPI_Comm_split_type(comm: MPI_Comm, kind: c_int, key: c_int, info: MPI_Info) -> MPI_Comm;
    MPI_Cart_create = PMPI_Cart_create(comm: MPI_Comm, count: c_int, sizes: *const c_int, wraps: *const c_int, may_reorder: c_int) -> MPI_Comm;
    MPI_Cart_sub = PMPI_Cart_sub(comm: MPI_Comm, remain: *const c_int) -> MPI_Comm;
    MPI_Graph_create = PMPI_Graph_create(comm: MPI_Comm, count: c_int, index: *const c_int, edges: *const c_int, may_reorder: c_int) -> MPI_Comm;
    MPI_Dist_graph_create_adjacent = PMPI_Dist_graph_create_adjacent(comm: MPI_Comm, in_degree: c_int, sources: *const c_int, in_weights: *const c_int, out_degree: c_int, targets: *const c_int, out_weights: *const c_int, info: MPI_Info, may_reorder: c_int) -> MPI_Comm;
    MPI_Dist_graph_create = PMPI_Dist_graph_create(comm: MPI_Comm, count: c_int, nodes: *const c_int, degrees: *const c_int, targets: *const c_int, weights: *const c_int, info: MPI_Info, may_reorder: c_int) -> MPI_Comm;
    MPI_Intercomm_create = PMPI_Intercomm_create(comm: MPI_Comm, leader: c_int, bridge: MPI_Comm, remote: c_int, tag: c_int) -> MPI_Comm;
    MPI_Intercomm_merge = PMPI_Intercomm_merge(comm: MPI_Comm, is_high: c_int) -> MPI_Comm;
    MPI_Group_incl = PMPI_Group_incl(group: MPI_Group, count: c_int, ranks: *const c_int) -> MPI_Group;
    MPI_Group_excl = PMPI_Group_excl(group: MPI_Group, count: c_int, ranks: *const c_int) -> MPI_Group;
    MPI_Group_union = PMPI_Group_union(one: MPI_Group, other: MPI_Group) -> MPI_Group;
    MPI_Group_intersection = PMPI_Group_intersection(one: MPI_Group, other: MPI_Group) -> MPI_Group;
    MPI_Group_difference = PMPI_Group_difference(one: MPI_Group, other: MPI_Group) -> MPI_Group;
    MPI_Type_contiguous = PMPI_Type_contiguous(count: c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_vector = PMPI_Type_vector(count: c_int, length: c_int, stride: c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_hvector = PMPI_Type_create_hvector(count: c_int, length: c_int, stride: MPI_Aint, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_indexed = PMPI_Type_indexed(count: c_int, lengths: *const c_int, places: *const c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_hindexed = PMPI_Type_create_hindexed(count: c_int, lengths: *const c_int, places: *const MPI_Aint, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_indexed_block = PMPI_Type_create_indexed_block(count: c_int, length: c_int, places: *const c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_hindexed_block = PMPI_Type_create_hindexed_block(count: c_int, length: c_int, places: *const MPI_Aint, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_struct = PMPI_Type_create_struct(count: c_int, lengths: *const c_int, places: *const MPI_Aint, kinds: *const MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_subarray = PMPI_Type_create_subarray(count: c_int, sizes: *const c_int, subsizes: *const c_int, starts: *const c_int, order: c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_darray = PMPI_Type_create_darray(size: c_int, rank: c_int, count: c_int, sizes: *const c_int, kinds: *const c_int, arguments: *const c_int, ranks: *const c_int, order: c_int, old: MPI_Datatype) -> MPI_Datatype;
    MPI_Type_create_resized = PMPI_Type_create_resized(old: MPI_Datatype, bound: MPI_Aint, extent: MPI_Aint) -> MPI_Datatype;
    MPI_Type_dup = PMPI_Type_dup(old: MPI_Datatype) -> MPI_Datatype;
    MPI_Op_create = PMPI_Op_create(function: ffi::MPI_User_function, commutes: c_int) -> MPI_Op;
    MPI_Win_create = PMPI_Win_create(memory: *mut c_void, size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm) -> MPI_Win;
    MPI_Win_allocate = PMPI_Win_allocate(size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, memory: *mut c_void) -> MPI_Win;
    MPI_Win_allocate_shared = PMPI_Win_allocate_shared(size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, memory: *mut c_void) -> MPI_Win;
    MPI_Win_create_dynamic = PMPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm) -> MPI_Win;
    MPI_File_open = PMPI_File_open(comm: MPI_Comm, name: *const c_char, mode: c_int, info: MPI_Info) -> MPI_File;
    MPI_Info_create = PMPI_Info_create() -> MPI_Info;
    MPI_Info_dup = PMPI_Info_dup(info: MPI_Info) -> MPI_Info;
}

removers! {
    MPI_Comm_free = PMPI_Comm_free(MPI_Comm);
    MPI_Comm_disconnect = PMPI_Comm_disconnect(MPI_Comm);
    MPI_Group_free = PMPI_Group_free(MPI_Group);
    MPI_Type_free = PMPI_Type_free(MPI_Datatype);
    MPI_Op_free = PMPI_Op_free(MPI_Op);
    MPI_Win_free = PMPI_Win_free(MPI_Win);
    MPI_File_close = PMPI_File_close(MPI_File);
    MPI_Info_free = PMPI_Info_free(MPI_Info);
}
