//! The calls of MPI that make what a program has, in C and Fortran.

// The functions have MPI's names.
#![allow(non_snake_case)]

use std::ffi::c_int;
use std::mem;

use mpi::ffi::{self, MPI_Datatype, MPI_Group};

use super::behind::Behind;
use super::kinds::MpiKind;
use super::requests;
use crate::{handles, objects};

/// The most arguments of such a call, with the error's place in Fortran.
const MAX_ARGUMENT_COUNT: usize = 12;
/// The arguments that are in registers. The others are on the stack.
const REGISTER_COUNT: usize = 6;
/// The words on the stack between the saved registers and the other arguments: a saved register, and the place to return to.
const FRAME_WORD_COUNT: usize = 2;
/// Fortran passes the lengths of texts behind all other arguments.
const MAX_LENGTH_COUNT: usize = 2;

/// A call that makes something.
struct MakerCall {
    /// Its name in C.
    name: &'static str,
    behind: Behind,
    kind: MpiKind,
    /// The number of the argument that is the place of what is made, from 1 on.
    place: usize,
    /// The arguments in C. In Fortran, the place of the error follows.
    count: usize,
    is_fortran: bool,
}

/// Exports a function that notes what the function behind makes.
macro_rules! maker {
    ($kind:ident $place:literal $count:literal $c:ident: $name:ident, $is_fortran:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            static MAKER_CALL: MakerCall = MakerCall {
                name: stringify!($c),
                behind: Behind::new(concat!(stringify!($name), "\0")),
                kind: MpiKind::$kind,
                place: $place,
                count: $count,
                is_fortran: $is_fortran,
            };
            // Puts the arguments of registers in order onto the stack, which is aligned for the call then.
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, rsp",
                "lea rsi, [rip + {call}]",
                "call {make}",
                "leave",
                "ret",
                call = sym MAKER_CALL,
                make = sym make,
            )
        }
    };
}

/// Exports functions in C and Fortran, with the argument that is the place, and the number of arguments.
macro_rules! makers {
    ($($kind:ident $place:literal of $count:literal: $c:ident $(, $fortran:ident)*;)*) => { $(
        maker! { $kind $place $count $c: $c, false }
        $(maker! { $kind $place $count $c: $fortran, true })*
    )* };
}

makers! {
    Comm 6 of 6: MPI_Cart_create, mpi_cart_create_, mpi_cart_create_f08_;
    Comm 3 of 3: MPI_Cart_sub, mpi_cart_sub_, mpi_cart_sub_f08_;
    Comm 5 of 5: MPI_Comm_accept, mpi_comm_accept_, mpi_comm_accept_f08_;
    Comm 5 of 5: MPI_Comm_connect, mpi_comm_connect_, mpi_comm_connect_f08_;
    Comm 4 of 4: MPI_Comm_create_group, mpi_comm_create_group_, mpi_comm_create_group_f08_;
    Comm 3 of 3: MPI_Comm_create, mpi_comm_create_, mpi_comm_create_f08_;
    Comm 2 of 2: MPI_Comm_dup, mpi_comm_dup_, mpi_comm_dup_f08_;
    Comm 2 of 3: MPI_Comm_idup, mpi_comm_idup_, mpi_comm_idup_f08_;
    Comm 3 of 3: MPI_Comm_dup_with_info, mpi_comm_dup_with_info_, mpi_comm_dup_with_info_f08_;
    Comm 9 of 9: MPI_Dist_graph_create, mpi_dist_graph_create_, mpi_dist_graph_create_f08_;
    Comm 10 of 10: MPI_Dist_graph_create_adjacent, mpi_dist_graph_create_adjacent_, mpi_dist_graph_create_adjacent_f08_;
    Comm 1 of 1: MPI_Comm_get_parent, mpi_comm_get_parent_, mpi_comm_get_parent_f08_;
    Comm 2 of 2: MPI_Comm_join, mpi_comm_join_, mpi_comm_join_f08_;
    Comm 7 of 8: MPI_Comm_spawn, mpi_comm_spawn_, mpi_comm_spawn_f08_;
    Comm 8 of 9: MPI_Comm_spawn_multiple, mpi_comm_spawn_multiple_, mpi_comm_spawn_multiple_f08_;
    Comm 4 of 4: MPI_Comm_split, mpi_comm_split_, mpi_comm_split_f08_;
    Comm 5 of 5: MPI_Comm_split_type, mpi_comm_split_type_, mpi_comm_split_type_f08_;
    Comm 6 of 6: MPI_Graph_create, mpi_graph_create_, mpi_graph_create_f08_;
    Comm 6 of 6: MPI_Intercomm_create, mpi_intercomm_create_, mpi_intercomm_create_f08_;
    Comm 3 of 3: MPI_Intercomm_merge, mpi_intercomm_merge_, mpi_intercomm_merge_f08_;
    Comm 3 of 4: MPI_Comm_idup_with_info, mpi_comm_idup_with_info_, mpi_comm_idup_with_info_f08_;
    Group 3 of 3: MPI_Group_difference, mpi_group_difference_, mpi_group_difference_f08_;
    Group 4 of 4: MPI_Group_excl, mpi_group_excl_, mpi_group_excl_f08_;
    Group 4 of 4: MPI_Group_incl, mpi_group_incl_, mpi_group_incl_f08_;
    Group 3 of 3: MPI_Group_intersection, mpi_group_intersection_, mpi_group_intersection_f08_;
    Group 4 of 4: MPI_Group_range_excl, mpi_group_range_excl_, mpi_group_range_excl_f08_;
    Group 4 of 4: MPI_Group_range_incl, mpi_group_range_incl_, mpi_group_range_incl_f08_;
    Group 3 of 3: MPI_Group_union, mpi_group_union_, mpi_group_union_f08_;
    GivenGroup 2 of 2: MPI_Comm_group, mpi_comm_group_, mpi_comm_group_f08_;
    GivenGroup 2 of 2: MPI_Comm_remote_group, mpi_comm_remote_group_, mpi_comm_remote_group_f08_;
    GivenGroup 2 of 2: MPI_File_get_group, mpi_file_get_group_, mpi_file_get_group_f08_;
    GivenGroup 2 of 2: MPI_Win_get_group, mpi_win_get_group_, mpi_win_get_group_f08_;
    Type 3 of 3: MPI_Type_contiguous, mpi_type_contiguous_, mpi_type_contiguous_f08_;
    Type 10 of 10: MPI_Type_create_darray, mpi_type_create_darray_, mpi_type_create_darray_f08_;
    Type 3 of 3: MPI_Type_create_f90_complex, mpi_type_create_f90_complex_, mpi_type_create_f90_complex_f08_;
    Type 2 of 2: MPI_Type_create_f90_integer, mpi_type_create_f90_integer_, mpi_type_create_f90_integer_f08_;
    Type 3 of 3: MPI_Type_create_f90_real, mpi_type_create_f90_real_, mpi_type_create_f90_real_f08_;
    Type 5 of 5: MPI_Type_create_hindexed_block, mpi_type_create_hindexed_block_, mpi_type_create_hindexed_block_f08_;
    Type 5 of 5: MPI_Type_create_hindexed, mpi_type_create_hindexed_, mpi_type_create_hindexed_f08_;
    Type 5 of 5: MPI_Type_create_hvector, mpi_type_create_hvector_, mpi_type_create_hvector_f08_;
    Type 5 of 5: MPI_Type_create_indexed_block, mpi_type_create_indexed_block_, mpi_type_create_indexed_block_f08_;
    Type 5 of 5: MPI_Type_create_struct, mpi_type_create_struct_, mpi_type_create_struct_f08_;
    Type 7 of 7: MPI_Type_create_subarray, mpi_type_create_subarray_, mpi_type_create_subarray_f08_;
    Type 4 of 4: MPI_Type_create_resized, mpi_type_create_resized_, mpi_type_create_resized_f08_;
    Type 2 of 2: MPI_Type_dup, mpi_type_dup_, mpi_type_dup_f08_;
    Type 5 of 5: MPI_Type_indexed, mpi_type_indexed_, mpi_type_indexed_f08_;
    Type 5 of 5: MPI_Type_vector, mpi_type_vector_, mpi_type_vector_f08_;
    Type 5 of 5: MPI_Type_hindexed, mpi_type_hindexed_;
    Type 5 of 5: MPI_Type_hvector, mpi_type_hvector_;
    Type 5 of 5: MPI_Type_struct, mpi_type_struct_;
    ContainedTypes 7 of 7: MPI_Type_get_contents, mpi_type_get_contents_, mpi_type_get_contents_f08_;
    ViewTypes 3 of 5: MPI_File_get_view, mpi_file_get_view_, mpi_file_get_view_f08_;
    Op 3 of 3: MPI_Op_create, mpi_op_create_, mpi_op_create_f08_;
    Window 6 of 6: MPI_Win_create, mpi_win_create_, mpi_win_create_f08_;
    Window 3 of 3: MPI_Win_create_dynamic, mpi_win_create_dynamic_, mpi_win_create_dynamic_f08_;
    MemoryWindow 6 of 6: MPI_Win_allocate, mpi_win_allocate_, mpi_win_allocate_f08_, mpi_win_allocate_cptr_;
    MemoryWindow 6 of 6: MPI_Win_allocate_shared, mpi_win_allocate_shared_, mpi_win_allocate_shared_f08_, mpi_win_allocate_shared_cptr_;
    File 5 of 5: MPI_File_open, mpi_file_open_, mpi_file_open_f08_;
    Info 2 of 2: MPI_Comm_get_info, mpi_comm_get_info_, mpi_comm_get_info_f08_;
    Info 2 of 2: MPI_File_get_info, mpi_file_get_info_, mpi_file_get_info_f08_;
    Info 1 of 1: MPI_Info_create, mpi_info_create_, mpi_info_create_f08_;
    Info 2 of 2: MPI_Info_dup, mpi_info_dup_, mpi_info_dup_f08_;
    Info 2 of 2: MPI_Win_get_info, mpi_win_get_info_, mpi_win_get_info_f08_;
    Info 3 of 3: MPI_Info_create_env, mpi_info_create_env_, mpi_info_create_env_f08_;
    ErrorHandler 2 of 2: MPI_Comm_create_errhandler, mpi_comm_create_errhandler_, mpi_comm_create_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_Comm_get_errhandler, mpi_comm_get_errhandler_, mpi_comm_get_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_File_create_errhandler, mpi_file_create_errhandler_, mpi_file_create_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_File_get_errhandler, mpi_file_get_errhandler_, mpi_file_get_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_Win_create_errhandler, mpi_win_create_errhandler_, mpi_win_create_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_Win_get_errhandler, mpi_win_get_errhandler_, mpi_win_get_errhandler_f08_;
    ErrorHandler 2 of 2: MPI_Errhandler_create, mpi_errhandler_create_;
    ErrorHandler 2 of 2: MPI_Errhandler_get, mpi_errhandler_get_;
    Keyval 3 of 4: MPI_Keyval_create, mpi_keyval_create_;
    Keyval 3 of 4: MPI_Comm_create_keyval, mpi_comm_create_keyval_, mpi_comm_create_keyval_f08_;
    Keyval 3 of 4: MPI_Type_create_keyval, mpi_type_create_keyval_, mpi_type_create_keyval_f08_;
    Keyval 3 of 4: MPI_Win_create_keyval, mpi_win_create_keyval_, mpi_win_create_keyval_f08_;
    Message 4 of 5: MPI_Mprobe, mpi_mprobe_, mpi_mprobe_f08_;
    ProbedMessage 5 of 6: MPI_Improbe, mpi_improbe_, mpi_improbe_f08_;
    // OpenMPI 4 has the persistent requests of collective calls as MPIX, and 5 as MPI.
    Request 7 of 7: MPI_Send_init, mpi_send_init_, mpi_send_init_f08_;
    Request 7 of 7: MPI_Bsend_init, mpi_bsend_init_, mpi_bsend_init_f08_;
    Request 7 of 7: MPI_Ssend_init, mpi_ssend_init_, mpi_ssend_init_f08_;
    Request 7 of 7: MPI_Rsend_init, mpi_rsend_init_, mpi_rsend_init_f08_;
    Request 7 of 7: MPI_Recv_init, mpi_recv_init_, mpi_recv_init_f08_;
    Request 9 of 9: MPI_Psend_init, mpi_psend_init_, mpi_psend_init_f08_;
    Request 9 of 9: MPI_Precv_init, mpi_precv_init_, mpi_precv_init_f08_;
    Request 3 of 3: MPI_Barrier_init, mpi_barrier_init_, mpi_barrier_init_f08_;
    Request 7 of 7: MPI_Bcast_init, mpi_bcast_init_, mpi_bcast_init_f08_;
    Request 10 of 10: MPI_Gather_init, mpi_gather_init_, mpi_gather_init_f08_;
    Request 11 of 11: MPI_Gatherv_init, mpi_gatherv_init_, mpi_gatherv_init_f08_;
    Request 10 of 10: MPI_Scatter_init, mpi_scatter_init_, mpi_scatter_init_f08_;
    Request 11 of 11: MPI_Scatterv_init, mpi_scatterv_init_, mpi_scatterv_init_f08_;
    Request 9 of 9: MPI_Allgather_init, mpi_allgather_init_, mpi_allgather_init_f08_;
    Request 10 of 10: MPI_Allgatherv_init, mpi_allgatherv_init_, mpi_allgatherv_init_f08_;
    Request 9 of 9: MPI_Alltoall_init, mpi_alltoall_init_, mpi_alltoall_init_f08_;
    Request 11 of 11: MPI_Alltoallv_init, mpi_alltoallv_init_, mpi_alltoallv_init_f08_;
    Request 11 of 11: MPI_Alltoallw_init, mpi_alltoallw_init_, mpi_alltoallw_init_f08_;
    Request 9 of 9: MPI_Reduce_init, mpi_reduce_init_, mpi_reduce_init_f08_;
    Request 8 of 8: MPI_Allreduce_init, mpi_allreduce_init_, mpi_allreduce_init_f08_;
    Request 8 of 8: MPI_Reduce_scatter_init, mpi_reduce_scatter_init_, mpi_reduce_scatter_init_f08_;
    Request 8 of 8: MPI_Reduce_scatter_block_init, mpi_reduce_scatter_block_init_, mpi_reduce_scatter_block_init_f08_;
    Request 8 of 8: MPI_Scan_init, mpi_scan_init_, mpi_scan_init_f08_;
    Request 8 of 8: MPI_Exscan_init, mpi_exscan_init_, mpi_exscan_init_f08_;
    Request 9 of 9: MPI_Neighbor_allgather_init, mpi_neighbor_allgather_init_, mpi_neighbor_allgather_init_f08_;
    Request 10 of 10: MPI_Neighbor_allgatherv_init, mpi_neighbor_allgatherv_init_, mpi_neighbor_allgatherv_init_f08_;
    Request 9 of 9: MPI_Neighbor_alltoall_init, mpi_neighbor_alltoall_init_, mpi_neighbor_alltoall_init_f08_;
    Request 11 of 11: MPI_Neighbor_alltoallv_init, mpi_neighbor_alltoallv_init_, mpi_neighbor_alltoallv_init_f08_;
    Request 11 of 11: MPI_Neighbor_alltoallw_init, mpi_neighbor_alltoallw_init_, mpi_neighbor_alltoallw_init_f08_;
    Request 3 of 3: MPIX_Barrier_init, mpix_barrier_init_, mpix_barrier_init_f08_;
    Request 7 of 7: MPIX_Bcast_init, mpix_bcast_init_, mpix_bcast_init_f08_;
    Request 10 of 10: MPIX_Gather_init, mpix_gather_init_, mpix_gather_init_f08_;
    Request 11 of 11: MPIX_Gatherv_init, mpix_gatherv_init_, mpix_gatherv_init_f08_;
    Request 10 of 10: MPIX_Scatter_init, mpix_scatter_init_, mpix_scatter_init_f08_;
    Request 11 of 11: MPIX_Scatterv_init, mpix_scatterv_init_, mpix_scatterv_init_f08_;
    Request 9 of 9: MPIX_Allgather_init, mpix_allgather_init_, mpix_allgather_init_f08_;
    Request 10 of 10: MPIX_Allgatherv_init, mpix_allgatherv_init_, mpix_allgatherv_init_f08_;
    Request 9 of 9: MPIX_Alltoall_init, mpix_alltoall_init_, mpix_alltoall_init_f08_;
    Request 11 of 11: MPIX_Alltoallv_init, mpix_alltoallv_init_, mpix_alltoallv_init_f08_;
    Request 11 of 11: MPIX_Alltoallw_init, mpix_alltoallw_init_, mpix_alltoallw_init_f08_;
    Request 9 of 9: MPIX_Reduce_init, mpix_reduce_init_, mpix_reduce_init_f08_;
    Request 8 of 8: MPIX_Allreduce_init, mpix_allreduce_init_, mpix_allreduce_init_f08_;
    Request 8 of 8: MPIX_Reduce_scatter_init, mpix_reduce_scatter_init_, mpix_reduce_scatter_init_f08_;
    Request 8 of 8: MPIX_Reduce_scatter_block_init, mpix_reduce_scatter_block_init_, mpix_reduce_scatter_block_init_f08_;
    Request 8 of 8: MPIX_Scan_init, mpix_scan_init_, mpix_scan_init_f08_;
    Request 8 of 8: MPIX_Exscan_init, mpix_exscan_init_, mpix_exscan_init_f08_;
    Request 9 of 9: MPIX_Neighbor_allgather_init, mpix_neighbor_allgather_init_, mpix_neighbor_allgather_init_f08_;
    Request 10 of 10: MPIX_Neighbor_allgatherv_init, mpix_neighbor_allgatherv_init_, mpix_neighbor_allgatherv_init_f08_;
    Request 9 of 9: MPIX_Neighbor_alltoall_init, mpix_neighbor_alltoall_init_, mpix_neighbor_alltoall_init_f08_;
    Request 11 of 11: MPIX_Neighbor_alltoallv_init, mpix_neighbor_alltoallv_init_, mpix_neighbor_alltoallv_init_f08_;
    Request 11 of 11: MPIX_Neighbor_alltoallw_init, mpix_neighbor_alltoallw_init_, mpix_neighbor_alltoallw_init_f08_;
}

/// Makes something, and notes it if it is for the program. Returns what the function behind does.
///
/// # Safety
/// The first arguments of the call are at `saved`, and behind them, after the words of the frame, the others.
unsafe extern "C" fn make(saved: *const usize, call: &'static MakerCall) -> c_int {
    type Word = usize;
    type Make = unsafe extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word) -> c_int;
    let mut arguments = [0; MAX_ARGUMENT_COUNT];
    let count = call.count + if call.is_fortran { 1 + MAX_LENGTH_COUNT } else { 0 };
    for (i, argument) in arguments.iter_mut().enumerate().take(count) {
        let skipped = if i < REGISTER_COUNT { 0 } else { FRAME_WORD_COUNT };
        // SAFETY: as the caller guarantees. Where there are no lengths of texts, the program's stack has other words.
        *argument = unsafe { saved.add(i + skipped).read() };
    }
    let is_program = handles::are_of_program();
    let passed = arguments;
    let mut error = 0;
    if call.is_fortran {
        arguments[call.count] = (&raw mut error) as usize;
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l] = arguments;
    // SAFETY: MPI's function gets what this one got, and ignores the arguments behind its own. Without an error, it has put something into
    // its place. A program in Fortran may omit the place of the error.
    unsafe {
        let function = mem::transmute::<usize, Make>(call.behind.find());
        let run = || function(a, b, c, d, e, f, g, h, i, j, k, l);
        let returned = if is_program && has_own_blocks(call.kind) { handles::make(run) } else { run() };
        let code = if call.is_fortran { error } else { returned };
        if is_program && code as u32 == ffi::MPI_SUCCESS {
            note_made(call, &passed);
        }
        if call.is_fortran && passed[call.count] != 0 {
            (passed[call.count] as *mut c_int).write(error);
        }
        returned
    }
}

/// Returns whether MPI allocates blocks for each thing of a kind, and the program knows the thing by their addresses.
fn has_own_blocks(kind: MpiKind) -> bool {
    !matches!(kind, MpiKind::Request | MpiKind::Message | MpiKind::ProbedMessage)
}

/// # Safety
/// The call with these arguments has made something.
unsafe fn note_made(call: &MakerCall, arguments: &[usize; MAX_ARGUMENT_COUNT]) {
    let place = arguments[call.place - 1];
    let handle_bytes = if call.is_fortran { size_of::<c_int>() } else { size_of::<usize>() };
    // SAFETY: as the caller guarantees, the places have what was made.
    unsafe {
        let made_at = |place| call.kind.read(place, call.is_fortran);
        match call.kind {
            MpiKind::Request => requests::LIVE_REQUESTS.insert(made_at(place)),
            MpiKind::ProbedMessage if *(arguments[call.place - 2] as *const c_int) == 0 => {}
            MpiKind::Message | MpiKind::ProbedMessage if objects::is_variable(made_at(place)) => {}
            MpiKind::Message | MpiKind::ProbedMessage => requests::LIVE_MESSAGES.insert(made_at(place)),
            MpiKind::GivenGroup => handles::add(copy_group(place, call.is_fortran), call.name),
            MpiKind::ContainedTypes => {
                let from = MpiKind::Type.read_argument(arguments[0], call.is_fortran);
                let count = envelope_of(from).0;
                (0..count).for_each(|i| add_type(made_at(place + i * handle_bytes), call.name));
            }
            MpiKind::ViewTypes => {
                [place, arguments[call.place]].map(made_at).iter().for_each(|made| add_type(*made, call.name))
            }
            MpiKind::Type => add_type(made_at(place), call.name),
            kind => {
                if kind == MpiKind::MemoryWindow {
                    requests::LIVE_WINDOWS.insert(made_at(place));
                }
                handles::add(made_at(place), call.name);
            }
        }
    }
}

/// Returns the number of types that a type is made of, and how it is made.
///
/// # Safety
/// The address is that of a type.
unsafe fn envelope_of(address: usize) -> (usize, c_int) {
    let [mut integers, mut addresses, mut types, mut combiner] = [0; 4];
    // SAFETY: as the caller guarantees.
    unsafe {
        ffi::PMPI_Type_get_envelope(
            MPI_Datatype(address as *mut _),
            &mut integers,
            &mut addresses,
            &mut types,
            &mut combiner,
        );
    }
    (types as usize, combiner)
}

/// Adds a type. Those of Fortran's precisions are MPI's, which makes each once, and no program frees them.
///
/// # Safety
/// The address is that of a type.
unsafe fn add_type(address: usize, call: &'static str) {
    // SAFETY: as the caller guarantees.
    let combiner = unsafe { envelope_of(address) }.1 as u32;
    let is_shared =
        [ffi::MPI_COMBINER_F90_REAL, ffi::MPI_COMBINER_F90_COMPLEX, ffi::MPI_COMBINER_F90_INTEGER].contains(&combiner);
    if !is_shared || !handles::has(address) {
        handles::add(address, call);
    }
}

/// Replaces a group at a place by a copy. Returns the copy's address; without memory for it, that of the group.
///
/// # Safety
/// The place has a group.
unsafe fn copy_group(place: usize, is_fortran: bool) -> usize {
    // SAFETY: as the caller guarantees. The group is only freed once the place has another one.
    unsafe {
        let mut given = MPI_Group(MpiKind::Group.read(place, is_fortran) as *mut _);
        let mut copy = given;
        let copied = handles::make(|| ffi::PMPI_Group_union(given, ffi::RSMPI_GROUP_EMPTY, &mut copy));
        if copied as u32 != ffi::MPI_SUCCESS {
            return given.0 as usize;
        }
        match is_fortran {
            true => (place as *mut c_int).write(ffi::PMPI_Group_c2f(copy)),
            false => (place as *mut MPI_Group).write(copy),
        }
        ffi::PMPI_Group_free(&mut given);
        copy.0 as usize
    }
}
