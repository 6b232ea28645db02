! A computation that checkpoints itself: run it again, and it goes on where the last checkpoint was.
!
!   mpifort PREFIX/include/terrace_dumps.f90 checkpoint.f90 -lterrace_dump -o checkpoint
!   mpirun -n 4 ./checkpoint STORE STEPS
!
! STORE is the directory of this node's store; {node} in it stands for TERRACE_NODE.

program checkpoint
  use mpi
  use terrace_dumps
  implicit none
  integer, parameter :: cells = 50000
  character(kind=c_char, len=*), parameter :: name = "fortran"//c_null_char
  real(c_double), target :: field(cells) = 0
  integer, target :: step = 0
  type(c_ptr) :: checkpoints
  character(len=1024) :: argument
  integer(c_int32_t) :: version
  logical(c_bool) :: archived
  integer :: rank, steps, failed

  call mpi_init(failed)
  call mpi_comm_rank(mpi_comm_world, rank, failed)
  call get_command_argument(2, argument)
  read (argument, *) steps
  call get_command_argument(1, argument)
  call must(terrace_dump_open(terrace_comm(mpi_comm_world), trim(argument)//c_null_char, checkpoints))
  call must(terrace_dump_set_replicas(checkpoints, 2))
  call must(terrace_dump_protect(checkpoints, 0, c_loc(field), c_sizeof(field)))
  call must(terrace_dump_protect(checkpoints, 1, c_loc(step), c_sizeof(step)))

  select case (terrace_dump_restart(checkpoints, name, -1_c_int64_t))
  case (terrace_dump_status_ok)
    call must(terrace_dump_is_archived(checkpoints, archived))
    if (rank == 0) print '(a, i0, a, l1)', "goes on after step ", step, ", from an archive: ", archived
  case (terrace_dump_status_not_found)
    if (rank == 0) print '(2a)', "begins: ", terrace_dump_message()
  case default
    call must(terrace_dump_status_failed)
  end select
  do while (step < steps)
    field = field + rank + 1
    step = step + 1
    call must(terrace_dump_checkpoint(checkpoints, name, -1_c_int64_t, version))
  end do
  if (any(nint(field) /= step*(rank + 1))) error stop "other numbers than were computed"
  if (rank == 0) print '(a, i0, a, i0)', "step ", step, " is version ", version
  call terrace_dump_close(checkpoints)
  call mpi_finalize(failed)

contains

  subroutine must(status)
    integer(c_int), intent(in) :: status
    integer :: ended

    if (status == terrace_dump_status_ok) return
    print '(2a)', "checkpoint: ", terrace_dump_message()
    call mpi_abort(mpi_comm_world, 1, ended)
  end subroutine
end program
