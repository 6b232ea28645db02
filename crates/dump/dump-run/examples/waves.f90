! A program in Fortran that knows nothing of checkpoints.
!
!   mpifort waves.f90 -o waves
!   mpirun -n 4 terrace dump run waves --at MPI_Allreduce --each 5 --restart -- ./waves STEPS
!
! In step DIE_IN_STEP of the environment, rank 1 ends the job.
program waves
    use mpi_f08
    implicit none
    integer, parameter :: cells = 20000
    double precision, allocatable :: wave(:), before(:), next(:)
    double precision :: local, energy
    integer :: rank, step, steps, dies, status
    character(len=16) :: text

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call get_command_argument(1, text)
    read (text, *) steps
    allocate (wave(cells), before(cells), next(cells))
    wave = 0
    wave(1 + 100 * rank) = 1
    before = wave
    do step = 1, steps
        next(2:cells - 1) = 2 * wave(2:cells - 1) - before(2:cells - 1) &
            + 0.3d0 * (wave(1:cells - 2) - 2 * wave(2:cells - 1) + wave(3:cells))
        next(1) = 0
        next(cells) = 0
        before = wave
        wave = next
        local = sum(wave**2)
        call get_environment_variable("DIE_IN_STEP", text, status=status)
        if (status == 0) then
            read (text, *) dies
            if (step == dies .and. rank == 1) call MPI_Abort(MPI_COMM_WORLD, 1)
        end if
        call MPI_Allreduce(local, energy, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    end do
    if (rank == 0) print '(a, i0, a, z16.16)', 'step ', steps, ': ', transfer(energy, 0_8)
    call MPI_Finalize()
end program
