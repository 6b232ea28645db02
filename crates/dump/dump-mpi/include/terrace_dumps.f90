! Checkpoints of MPI programs, for Fortran: the functions of terrace_dump.h, which documents them, by the same names.
!
!   mpifort -c PREFIX/include/terrace_dumps.f90
!   mpifort terrace_dumps.o program.f90 -lterrace_dump
!
! Names and paths end with c_null_char. A communicator is passed as terrace_comm(MPI_COMM_WORLD); one of mpi_f08, by its MPI_VAL. Optional
! arguments that are absent are null in C. A protected array is a target, or its compiler may keep a part of it in registers.

module terrace_dumps
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: terrace_dump_status_ok = 0
    enumerator :: terrace_dump_status_not_found = 1
    enumerator :: terrace_dump_status_invalid = 2
    enumerator :: terrace_dump_status_lost = 3
    enumerator :: terrace_dump_status_elsewhere = 4
    enumerator :: terrace_dump_status_failed = 5
  end enum

  interface
    type(c_ptr) function terrace_dump_last_error() bind(c)
      import
    end function

    integer(c_int) function terrace_dump(comm, buffer, length, replicas) bind(c)
      import
      type(c_ptr), value :: comm
      type(*), intent(in) :: buffer(*)
      integer(c_size_t), value :: length
      integer(c_int32_t), value :: replicas
    end function

    integer(c_int) function terrace_dump_open(comm, store, opened) bind(c)
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: store(*)
      type(c_ptr), intent(out) :: opened
    end function

    integer(c_int) function terrace_dump_set_replicas(checkpoints, replicas) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int32_t), value :: replicas
    end function

    integer(c_int) function terrace_dump_set_keep(checkpoints, keep) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int32_t), value :: keep
    end function

    integer(c_int) function terrace_dump_set_flow(checkpoints, to, keep) bind(c)
      import
      type(c_ptr), value :: checkpoints
      character(kind=c_char), intent(in), optional :: to(*)
      integer(c_int32_t), value :: keep
    end function

    integer(c_int) function terrace_dump_set_chunks(checkpoints, bytes, by_content) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int32_t), value :: bytes
      logical(c_bool), value :: by_content
    end function

    integer(c_int) function terrace_dump_protect(checkpoints, region, bytes, length) bind(c)
      import
      type(c_ptr), value :: checkpoints, bytes
      integer(c_int32_t), value :: region
      integer(c_size_t), value :: length
    end function

    integer(c_int) function terrace_dump_protect_same(checkpoints, region, bytes, length) bind(c)
      import
      type(c_ptr), value :: checkpoints, bytes
      integer(c_int32_t), value :: region
      integer(c_size_t), value :: length
    end function

    integer(c_int) function terrace_dump_protect_part(checkpoints, region, bytes, length, start) bind(c)
      import
      type(c_ptr), value :: checkpoints, bytes
      integer(c_int32_t), value :: region
      integer(c_size_t), value :: length
      integer(c_int64_t), value :: start
    end function

    integer(c_int) function terrace_dump_unprotect(checkpoints, region) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int32_t), value :: region
    end function

    integer(c_int) function terrace_dump_checkpoint(checkpoints, name, version, made) bind(c)
      import
      type(c_ptr), value :: checkpoints
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int32_t), intent(out), optional :: made
    end function

    integer(c_int) function terrace_dump_restart(checkpoints, name, version, restored) bind(c)
      import
      type(c_ptr), value :: checkpoints
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int32_t), intent(out), optional :: restored
    end function

    integer(c_int) function terrace_dump_is_archived(checkpoints, archived) bind(c)
      import
      type(c_ptr), value :: checkpoints
      logical(c_bool), intent(out) :: archived
    end function

    integer(c_int) function terrace_dump_set_limit(checkpoints, limit) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int32_t), value :: limit
    end function

    integer(c_int) function terrace_dump_prepare(checkpoints) bind(c)
      import
      type(c_ptr), value :: checkpoints
    end function

    integer(c_int) function terrace_dump_begin(checkpoints, name, version) bind(c)
      import
      type(c_ptr), value :: checkpoints
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
    end function

    integer(c_int) function terrace_dump_wait(checkpoints, made) bind(c)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int64_t), intent(out), optional :: made
    end function

    integer(c_int) function terrace_dump_test(checkpoints, ended, made) bind(c)
      import
      type(c_ptr), value :: checkpoints
      logical(c_bool), intent(out) :: ended
      integer(c_int64_t), intent(out), optional :: made
    end function

    subroutine terrace_dump_close(checkpoints) bind(c)
      import
      type(c_ptr), value :: checkpoints
    end subroutine
  end interface

contains

  ! Returns a communicator of Fortran as one of C. This is OpenMPI's way; MPICH has one number for both.
  type(c_ptr) function terrace_comm(comm)
    integer, intent(in) :: comm
    interface
      type(c_ptr) function comm_f2c(comm) bind(c, name="MPI_Comm_f2c")
        import
        integer(c_int), value :: comm
      end function
    end interface

    terrace_comm = comm_f2c(comm)
  end function

  ! Returns the message of the last failed call.
  function terrace_dump_message() result(message)
    character(:), allocatable :: message
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: text
    integer :: i
    interface
      integer(c_size_t) function strlen(text) bind(c)
        import
        type(c_ptr), value :: text
      end function
    end interface

    text = terrace_dump_last_error()
    allocate (character(strlen(text)) :: message)
    call c_f_pointer(text, letters, [len(message)])
    do i = 1, len(message)
      message(i:i) = letters(i)
    end do
  end function
end module
