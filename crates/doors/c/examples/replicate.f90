! Writes an array with requirements, reads it back, and lists the objects.
!
!   gfortran -c PREFIX/include/terrace.f90
!   gfortran terrace.o replicate.f90 $(pkg-config --libs terrace) && ./a.out STORE

module listing
  use terrace
  implicit none
contains
  integer(c_int) function count_objects(context, key, info) bind(c)
    type(c_ptr), value :: context
    character(kind=c_char), intent(in) :: key(*)
    type(terrace_info), intent(in) :: info
    integer, pointer :: count

    call c_f_pointer(context, count)
    if (key(1) == "f" .and. info%kind == terrace_kind_file) count = count + 1
    count_objects = 0
  end function
end module

program replicate
  use listing
  implicit none
  integer, parameter :: n = 100000
  character(kind=c_char, len=*), parameter :: key = "fortran/field"//c_null_char
  character(kind=c_char, len=12), target :: requirement = "min_storage"//c_null_char
  real(c_double) :: field(n), back(n)
  type(c_ptr) :: store, json
  type(terrace_receipt) :: receipt
  type(terrace_tier), target :: disk(1)
  type(terrace_compression) :: wanted
  character(kind=c_char) :: packed(8 * n + 24)
  integer(c_size_t) :: read, made
  integer, target :: objects = 0
  character(len=1024) :: directory
  integer :: i

  call get_command_argument(1, directory)
  field = [(sqrt(real(i, c_double)), i = 1, n)]
  call must(terrace_open(trim(directory)//c_null_char, store=store))
  call must(terrace_replicate(store, key, field, c_sizeof(field), &
                              operation=terrace_options(requirements=c_loc(requirement), max_latency=60.0_c_double), &
                              receipt=receipt))
  call must(terrace_wait(store, receipt, "durable"//c_null_char))
  print '(i0, a, l1)', receipt%bytes, " bytes, durable: ", receipt%durable
  call must(terrace_read(store, key, 0_c_int64_t, back, c_sizeof(back), read))
  if (read /= c_sizeof(field) .or. any(field /= back)) error stop "other numbers were read"
  print '(a, i0, a)', "read back ", n, " numbers"

  ! A single number is an array of one.
  call must(terrace_append(store, "fortran/log"//c_null_char, [n], c_sizeof(n)))
  call must(terrace_list(store, c_null_char, count_objects, c_loc(objects)))
  print '(i0, a)', objects, " objects"
  call must(terrace_locate(store, key, json))
  print '(a, l1)', "located: ", index(terrace_text(json), '"present"') > 0
  call terrace_free(json)

  ! Without the store, for a tier that the program describes.
  disk(1)%read = 2.0e8_c_double
  disk(1)%write = 1.0e8_c_double
  wanted%tiers = c_loc(disk)
  wanted%tier_count = size(disk)
  call must(terrace_compress_for(wanted, field, c_sizeof(field), packed, c_sizeof(packed), made))
  call must(terrace_decompress(packed, made, back, c_sizeof(back), read))
  print '(a, l1)', "compressed and back: ", all(field == back)

  if (terrace_delete(store, "none"//c_null_char) /= terrace_status_not_found) error stop "it was there"
  print '(a, l1)', "in words: ", index(terrace_text(terrace_last_error()), "none") > 0
  call must(terrace_close(store))

contains

  subroutine must(status)
    integer(c_int), intent(in) :: status

    if (status == terrace_status_ok) return
    print '(i0, 2a)', status, ": ", terrace_text(terrace_last_error())
    error stop
  end subroutine
end program
