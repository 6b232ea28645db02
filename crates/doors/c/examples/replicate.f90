! Writes an array and reads it back.
!
!   gfortran replicate.f90 $(pkg-config --libs terrace) && ./a.out STORE

module terrace
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), parameter :: terrace_ok = 0
  interface
    function terrace_open(directory, application, store) bind(c)
      import
      character(kind=c_char), intent(in) :: directory(*)
      type(c_ptr), value :: application
      type(c_ptr), intent(out) :: store
      integer(c_int) :: terrace_open
    end function
    function terrace_replicate(store, key, bytes, length, operation, receipt) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr), value :: bytes
      integer(c_size_t), value :: length
      type(c_ptr), value :: operation
      type(c_ptr), value :: receipt
      integer(c_int) :: terrace_replicate
    end function
    function terrace_read(store, key, offset, bytes, length, read) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: offset
      type(c_ptr), value :: bytes
      integer(c_size_t), value :: length
      integer(c_size_t), intent(out) :: read
      integer(c_int) :: terrace_read
    end function
    function terrace_close(store) bind(c)
      import
      type(c_ptr), value :: store
      integer(c_int) :: terrace_close
    end function
  end interface
end module

program replicate
  use terrace
  implicit none
  integer, parameter :: n = 100000
  real(c_double), target :: field(n), back(n)
  type(c_ptr) :: store
  integer(c_size_t) :: read
  character(len=1024) :: directory
  integer :: i

  call get_command_argument(1, directory)
  field = [(sqrt(real(i, c_double)), i = 1, n)]
  if (terrace_open(trim(directory)//c_null_char, c_null_ptr, store) /= terrace_ok) stop 1
  if (terrace_replicate(store, "fortran/field"//c_null_char, c_loc(field), c_sizeof(field), c_null_ptr, c_null_ptr) &
      /= terrace_ok) stop 2
  if (terrace_read(store, "fortran/field"//c_null_char, 0_c_int64_t, c_loc(back), c_sizeof(back), read) /= terrace_ok) stop 3
  if (read /= c_sizeof(field) .or. any(field /= back)) stop 4
  if (terrace_close(store) /= terrace_ok) stop 5
  print '(a, i0, a)', "read back ", n, " numbers"
end program
