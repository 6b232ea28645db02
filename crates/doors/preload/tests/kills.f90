! Writes files of numbers, one after the other.
program numbers
  integer :: file, number
  character(len=50) :: path
  do file = 1, 999
    write(path, '(a, i0)') '/terrace/w/', file
    open(10, file=trim(path))
    do number = 0, 59999
      write(10, '(i0)') number
    end do
    close(10)
    open(11, file='done', position='append')
    write(11, '(i0)') file
    close(11)
  end do
end program
