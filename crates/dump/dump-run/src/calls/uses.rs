//! The calls of MPI that free or change what a program has, in C and Fortran.

// The functions have MPI's names.
#![allow(non_snake_case)]

use std::ffi::c_int;

use super::kinds::MpiKind;
use super::noted::{NotedCall, RegisterArguments};
use super::requests::{LIVE_MESSAGES, LIVE_REQUESTS, LIVE_WINDOWS};
use crate::handles;

/// The effect of a call on an argument.
#[derive(Clone, Copy)]
enum HandleUse {
    /// Makes what its kind alone tells.
    Makes,
    /// Frees what is at a place.
    Frees,
    /// Changes something.
    Changes,
    /// Changes what is at a place.
    ChangesAt,
    /// Gives something the error handler that is the next argument.
    SetsHandler,
}

/// A call that uses something.
struct UsingCall {
    /// Its name in C.
    name: &'static str,
    does: HandleUse,
    kind: MpiKind,
    /// The number of the argument, from 1 on.
    argument: usize,
    is_fortran: bool,
}

/// Exports functions in C and Fortran that note what they do with an argument, and continue with the functions behind.
macro_rules! uses {
    ($($does:ident $kind:ident $argument:literal: $c:ident $(, $fortran:ident)*;)*) => { $(
        using! { $does $kind $argument $c: $c, false }
        $(using! { $does $kind $argument $c: $fortran, true })*
    )* };
}

macro_rules! using {
    ($does:ident $kind:ident $argument:literal $c:ident: $name:ident, $is_fortran:literal) => {
        noted_call! {
            $name: UsingCall = UsingCall {
                name: stringify!($c),
                does: HandleUse::$does,
                kind: MpiKind::$kind,
                argument: $argument,
                is_fortran: $is_fortran,
            }, note
        }
    };
}

uses! {
    Frees Comm 1: MPI_Comm_disconnect, mpi_comm_disconnect_, mpi_comm_disconnect_f08_;
    Frees Comm 1: MPI_Comm_free, mpi_comm_free_, mpi_comm_free_f08_;
    Frees Group 1: MPI_Group_free, mpi_group_free_, mpi_group_free_f08_;
    Frees Type 1: MPI_Type_free, mpi_type_free_, mpi_type_free_f08_;
    Frees Op 1: MPI_Op_free, mpi_op_free_, mpi_op_free_f08_;
    Frees Window 1: MPI_Win_free, mpi_win_free_, mpi_win_free_f08_;
    Frees File 1: MPI_File_close, mpi_file_close_, mpi_file_close_f08_;
    Frees Info 1: MPI_Info_free, mpi_info_free_, mpi_info_free_f08_;
    Frees ErrorHandler 1: MPI_Errhandler_free, mpi_errhandler_free_, mpi_errhandler_free_f08_;
    Frees Keyval 1: MPI_Keyval_free, mpi_keyval_free_;
    Frees Keyval 1: MPI_Comm_free_keyval, mpi_comm_free_keyval_, mpi_comm_free_keyval_f08_;
    Frees Keyval 1: MPI_Type_free_keyval, mpi_type_free_keyval_, mpi_type_free_keyval_f08_;
    Frees Keyval 1: MPI_Win_free_keyval, mpi_win_free_keyval_, mpi_win_free_keyval_f08_;
    Frees Request 1: MPI_Request_free, mpi_request_free_, mpi_request_free_f08_;
    Frees Message 4: MPI_Mrecv, mpi_mrecv_, mpi_mrecv_f08_;
    Frees Message 4: MPI_Imrecv, mpi_imrecv_, mpi_imrecv_f08_;
    Makes Buffer 1: MPI_Buffer_attach, mpi_buffer_attach_, mpi_buffer_attach_f08_;
    Frees Buffer 1: MPI_Buffer_detach, mpi_buffer_detach_, mpi_buffer_detach_f08_;
    Changes Comm 1: MPI_Comm_set_attr, mpi_comm_set_attr_, mpi_comm_set_attr_f08_;
    Changes Comm 1: MPI_Comm_delete_attr, mpi_comm_delete_attr_, mpi_comm_delete_attr_f08_;
    Changes Comm 1: MPI_Attr_put, mpi_attr_put_, mpi_attr_put_f08_;
    Changes Comm 1: MPI_Attr_delete, mpi_attr_delete_, mpi_attr_delete_f08_;
    SetsHandler Comm 1: MPI_Comm_set_errhandler, mpi_comm_set_errhandler_, mpi_comm_set_errhandler_f08_;
    SetsHandler Comm 1: MPI_Errhandler_set, mpi_errhandler_set_;
    Changes Comm 1: MPI_Comm_set_info, mpi_comm_set_info_, mpi_comm_set_info_f08_;
    Changes Type 1: MPI_Type_set_attr, mpi_type_set_attr_, mpi_type_set_attr_f08_;
    Changes Type 1: MPI_Type_delete_attr, mpi_type_delete_attr_, mpi_type_delete_attr_f08_;
    Changes Window 1: MPI_Win_set_attr, mpi_win_set_attr_, mpi_win_set_attr_f08_;
    Changes Window 1: MPI_Win_delete_attr, mpi_win_delete_attr_, mpi_win_delete_attr_f08_;
    SetsHandler Window 1: MPI_Win_set_errhandler, mpi_win_set_errhandler_, mpi_win_set_errhandler_f08_;
    Changes Window 1: MPI_Win_set_info, mpi_win_set_info_, mpi_win_set_info_f08_;
    Changes Window 1: MPI_Win_attach, mpi_win_attach_, mpi_win_attach_f08_;
    Changes Window 1: MPI_Win_detach, mpi_win_detach_, mpi_win_detach_f08_;
    SetsHandler File 1: MPI_File_set_errhandler, mpi_file_set_errhandler_, mpi_file_set_errhandler_f08_;
    Changes File 1: MPI_File_set_info, mpi_file_set_info_, mpi_file_set_info_f08_;
    Changes File 1: MPI_File_set_view, mpi_file_set_view_, mpi_file_set_view_f08_;
    Changes File 1: MPI_File_set_atomicity, mpi_file_set_atomicity_, mpi_file_set_atomicity_f08_;
    Changes File 1: MPI_File_seek, mpi_file_seek_, mpi_file_seek_f08_;
    Changes File 1: MPI_File_seek_shared, mpi_file_seek_shared_, mpi_file_seek_shared_f08_;
    Changes File 1: MPI_File_read, mpi_file_read_, mpi_file_read_f08_;
    Changes File 1: MPI_File_write, mpi_file_write_, mpi_file_write_f08_;
    Changes File 1: MPI_File_read_all, mpi_file_read_all_, mpi_file_read_all_f08_;
    Changes File 1: MPI_File_write_all, mpi_file_write_all_, mpi_file_write_all_f08_;
    Changes File 1: MPI_File_read_shared, mpi_file_read_shared_, mpi_file_read_shared_f08_;
    Changes File 1: MPI_File_write_shared, mpi_file_write_shared_, mpi_file_write_shared_f08_;
    Changes File 1: MPI_File_read_ordered, mpi_file_read_ordered_, mpi_file_read_ordered_f08_;
    Changes File 1: MPI_File_write_ordered, mpi_file_write_ordered_, mpi_file_write_ordered_f08_;
    Changes File 1: MPI_File_read_all_begin, mpi_file_read_all_begin_, mpi_file_read_all_begin_f08_;
    Changes File 1: MPI_File_write_all_begin, mpi_file_write_all_begin_, mpi_file_write_all_begin_f08_;
    Changes File 1: MPI_File_read_ordered_begin, mpi_file_read_ordered_begin_, mpi_file_read_ordered_begin_f08_;
    Changes File 1: MPI_File_write_ordered_begin, mpi_file_write_ordered_begin_, mpi_file_write_ordered_begin_f08_;
    Changes File 1: MPI_File_iread, mpi_file_iread_, mpi_file_iread_f08_;
    Changes File 1: MPI_File_iwrite, mpi_file_iwrite_, mpi_file_iwrite_f08_;
    Changes File 1: MPI_File_iread_all, mpi_file_iread_all_, mpi_file_iread_all_f08_;
    Changes File 1: MPI_File_iwrite_all, mpi_file_iwrite_all_, mpi_file_iwrite_all_f08_;
    Changes File 1: MPI_File_iread_shared, mpi_file_iread_shared_, mpi_file_iread_shared_f08_;
    Changes File 1: MPI_File_iwrite_shared, mpi_file_iwrite_shared_, mpi_file_iwrite_shared_f08_;
    Changes Info 1: MPI_Info_set, mpi_info_set_, mpi_info_set_f08_;
    Changes Info 1: MPI_Info_delete, mpi_info_delete_, mpi_info_delete_f08_;
    ChangesAt Type 1: MPI_Type_commit, mpi_type_commit_, mpi_type_commit_f08_;
    Changes Process 1: MPI_Add_error_class, mpi_add_error_class_, mpi_add_error_class_f08_;
    Changes Process 1: MPI_Add_error_code, mpi_add_error_code_, mpi_add_error_code_f08_;
    Changes Process 1: MPI_Add_error_string, mpi_add_error_string_, mpi_add_error_string_f08_;
    Changes Process 1: MPI_Remove_error_class, mpi_remove_error_class_, mpi_remove_error_class_f08_;
    Changes Process 1: MPI_Remove_error_code, mpi_remove_error_code_, mpi_remove_error_code_f08_;
    Changes Process 1: MPI_Remove_error_string, mpi_remove_error_string_, mpi_remove_error_string_f08_;
    Changes Process 1: MPI_Register_datarep, mpi_register_datarep_, mpi_register_datarep_f08_;
    Changes Process 1: MPI_Open_port, mpi_open_port_, mpi_open_port_f08_;
    Changes Process 1: MPI_Close_port, mpi_close_port_, mpi_close_port_f08_;
    Changes Process 1: MPI_Publish_name, mpi_publish_name_, mpi_publish_name_f08_;
    Changes Process 1: MPI_Unpublish_name, mpi_unpublish_name_, mpi_unpublish_name_f08_;
    Changes Process 1: MPI_T_cvar_handle_alloc;
    Changes Process 1: MPI_T_cvar_write;
    Changes Process 1: MPI_T_pvar_session_create;
    Changes Process 1: MPI_T_pvar_handle_alloc;
}

/// Notes what a call does. Returns the function to continue with.
///
/// # Safety
/// The program makes the call with these arguments.
unsafe extern "C" fn note(_: usize, call: &'static NotedCall<UsingCall>, arguments: &RegisterArguments) -> usize {
    if handles::are_of_program() {
        // SAFETY: as the caller guarantees.
        unsafe { note_use(&call.meaning, arguments) };
    }
    call.find_behind()
}

/// # Safety
/// The arguments are those of the call.
unsafe fn note_use(call: &UsingCall, arguments: &RegisterArguments) {
    let argument = arguments[call.argument - 1];
    // SAFETY: as the caller guarantees, the argument is a handle, or the place of one.
    unsafe {
        let passed = || call.kind.read_argument(argument, call.is_fortran);
        let at_place = || call.kind.read(argument, call.is_fortran);
        match call.does {
            HandleUse::Makes => handles::add(at_place(), call.name),
            HandleUse::Frees => note_freed(call, at_place()),
            HandleUse::Changes => handles::note_change(passed(), call.name),
            HandleUse::ChangesAt => handles::note_change(at_place(), call.name),
            HandleUse::SetsHandler => {
                let after = MpiKind::ErrorHandler.read_argument(arguments[call.argument], call.is_fortran);
                handles::note_value(passed(), call.name, || find_handler(call.kind, passed()), after);
            }
        }
    }
}

fn note_freed(call: &UsingCall, address: usize) {
    match call.kind {
        MpiKind::Request => return LIVE_REQUESTS.remove(address),
        MpiKind::Message => return LIVE_MESSAGES.remove(address),
        MpiKind::Window => LIVE_WINDOWS.remove(address),
        _ => {}
    }
    let was_early = handles::remove(address);
    // The restarted program has attached it again, and cannot attach another one.
    if call.kind == MpiKind::Buffer && was_early {
        handles::note_change(0, call.name);
    }
}

unsafe extern "C" {
    fn PMPI_Comm_get_errhandler(comm: usize, handler: *mut usize) -> c_int;
    fn PMPI_Win_get_errhandler(win: usize, handler: *mut usize) -> c_int;
    fn PMPI_File_get_errhandler(file: usize, handler: *mut usize) -> c_int;
}

/// Returns the error handler of a communicator, window or file. It is never freed, so that no other one has its address later.
///
/// # Safety
/// The address is that of something of this kind.
unsafe fn find_handler(kind: MpiKind, address: usize) -> usize {
    let mut handler = 0;
    // SAFETY: as the caller guarantees. Where MPI fails, the value is that of no handler.
    unsafe {
        match kind {
            MpiKind::Window => PMPI_Win_get_errhandler(address, &mut handler),
            MpiKind::File => PMPI_File_get_errhandler(address, &mut handler),
            _ => PMPI_Comm_get_errhandler(address, &mut handler),
        };
    }
    handler
}
