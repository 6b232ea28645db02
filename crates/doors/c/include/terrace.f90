! Terrace for Fortran: the functions of terrace.h, which documents them, by the same names.
!
!   gfortran -c PREFIX/include/terrace.f90
!   gfortran terrace.o program.f90 $(pkg-config --libs terrace)
!
! Keys and other texts end with c_null_char: "a key"//c_null_char. Bytes are arrays of any type; a scalar that is only read is passed as
! [scalar]. Optional arguments that are absent, and c_null_ptr, are null in C.

module terrace
  use, intrinsic :: iso_c_binding
  implicit none

  enum, bind(c)
    enumerator :: terrace_status_ok = 0
    enumerator :: terrace_status_not_found = 1
    enumerator :: terrace_status_invalid = 2
    enumerator :: terrace_status_conflict = 3
    enumerator :: terrace_status_no_space = 4
    enumerator :: terrace_status_unreadable = 5
    enumerator :: terrace_status_owed = 6
    enumerator :: terrace_status_too_short = 7
    enumerator :: terrace_status_failed = 8
  end enum

  enum, bind(c)
    enumerator :: terrace_kind_file = 0
    enumerator :: terrace_kind_directory = 1
    enumerator :: terrace_kind_symlink = 2
  end enum

  type, bind(c) :: terrace_info
    integer(c_int64_t) :: object, generation, length, modified
    integer(c_int32_t) :: mode
    integer(c_int) :: kind
  end type

  type, bind(c) :: terrace_options
    type(c_ptr) :: requirements = c_null_ptr
    type(c_ptr) :: ack = c_null_ptr
    type(c_ptr) :: weights = c_null_ptr
    type(c_ptr) :: budget = c_null_ptr
    type(c_ptr) :: element = c_null_ptr
    integer(c_int8_t) :: replicas = 0
    ! The bytes of this type: the library reads the components below only with it.
    integer(c_int32_t) :: size = 64
    real(c_double) :: max_latency = 0
    type(c_ptr) :: tiers = c_null_ptr
  end type

  type, bind(c) :: terrace_tier
    type(c_ptr) :: name = c_null_ptr
    real(c_double) :: read = 0, write = 0, latency = 0
    integer(c_int64_t) :: room = 0
  end type

  type, bind(c) :: terrace_compression
    ! The bytes of this type.
    integer(c_size_t) :: size = 40
    type(c_ptr) :: tiers = c_null_ptr
    integer(c_size_t) :: tier_count = 0
    type(c_ptr) :: weights = c_null_ptr
    real(c_double) :: reads = 1
  end type

  type, bind(c) :: terrace_receipt
    integer(c_int64_t) :: object, generation, owed, bytes, stored
    integer(c_int8_t) :: want, asked, have
    logical(c_bool) :: durable
    integer(c_int32_t) :: seal
  end type

  type, bind(c) :: terrace_request
    type(c_ptr) :: destination = c_null_ptr
    integer(c_int64_t) :: offset = -1
    type(c_ptr) :: bytes = c_null_ptr
    integer(c_size_t) :: length = 0
    type(c_ptr) :: producer = c_null_ptr
    integer(c_int64_t) :: sequence = 0
  end type

  ! Gets an object's key, whose end c_null_char marks, and its description. Anything but 0 ends the listing.
  abstract interface
    integer(c_int) function terrace_visit(context, key, info) bind(c)
      import
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: key(*)
      type(terrace_info), intent(in) :: info
    end function
  end interface

  interface
    integer(c_size_t) function terrace_compressed_most(length) bind(c)
      import
      integer(c_size_t), value :: length
    end function

    integer(c_int) function terrace_compress(encoding, bytes, length, out, capacity, made) bind(c)
      import
      character(kind=c_char), intent(in), optional :: encoding(*)
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length, capacity
      type(*), intent(inout) :: out(*)
      integer(c_size_t), intent(out) :: made
    end function

    integer(c_int) function terrace_compress_for(wanted, bytes, length, out, capacity, made, json) bind(c)
      import
      type(terrace_compression), intent(in) :: wanted
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length, capacity
      type(*), intent(inout) :: out(*)
      integer(c_size_t), intent(out) :: made
      type(c_ptr), intent(out), optional :: json
    end function

    integer(c_int) function terrace_decompress(bytes, length, out, capacity, made) bind(c)
      import
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length, capacity
      type(*), intent(inout) :: out(*)
      integer(c_size_t), intent(out) :: made
    end function

    integer(c_int) function terrace_dataset_add(store, name, declaration, dataset) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*), declaration(*)
      type(c_ptr), intent(out) :: dataset
    end function

    integer(c_int) function terrace_dataset_open(store, name, dataset) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(out) :: dataset
    end function

    integer(c_int) function terrace_dataset_close(dataset) bind(c)
      import
      type(c_ptr), value :: dataset
    end function

    integer(c_int) function terrace_dataset_remove(store, name) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*)
    end function

    integer(c_int) function terrace_dataset_views(dataset, json) bind(c)
      import
      type(c_ptr), value :: dataset
      type(c_ptr), intent(out) :: json
    end function

    integer(c_int) function terrace_dataset_length(dataset, view, length) bind(c)
      import
      type(c_ptr), value :: dataset
      character(kind=c_char), intent(in) :: view(*)
      integer(c_int64_t), intent(out) :: length
    end function

    integer(c_int) function terrace_dataset_read(dataset, view, offset, out, length, read) bind(c)
      import
      type(c_ptr), value :: dataset
      character(kind=c_char), intent(in) :: view(*)
      integer(c_int64_t), value :: offset
      type(*), intent(inout) :: out(*)
      integer(c_size_t), value :: length
      integer(c_size_t), intent(out) :: read
    end function

    integer(c_int) function terrace_dataset_write(dataset, view, offset, bytes, length) bind(c)
      import
      type(c_ptr), value :: dataset
      character(kind=c_char), intent(in) :: view(*)
      integer(c_int64_t), value :: offset
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
    end function

    integer(c_int) function terrace_dataset_sync(dataset) bind(c)
      import
      type(c_ptr), value :: dataset
    end function

    type(c_ptr) function terrace_last_error() bind(c)
      import
    end function

    integer(c_int) function terrace_file_open(store, key, mode, file) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*), mode(*)
      type(c_ptr), intent(out) :: file
    end function

    integer(c_int) function terrace_file_close(file) bind(c)
      import
      type(c_ptr), value :: file
    end function

    integer(c_int) function terrace_file_read(file, offset, out, length, read) bind(c)
      import
      type(c_ptr), value :: file
      integer(c_int64_t), value :: offset
      type(*), intent(inout) :: out(*)
      integer(c_size_t), value :: length
      integer(c_size_t), intent(out) :: read
    end function

    integer(c_int) function terrace_file_write(file, offset, bytes, length) bind(c)
      import
      type(c_ptr), value :: file
      integer(c_int64_t), value :: offset
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
    end function

    integer(c_int) function terrace_file_append(file, bytes, length, offset) bind(c)
      import
      type(c_ptr), value :: file
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
      integer(c_int64_t), intent(out), optional :: offset
    end function

    integer(c_int) function terrace_file_length(file, length) bind(c)
      import
      type(c_ptr), value :: file
      integer(c_int64_t), intent(out) :: length
    end function

    integer(c_int) function terrace_file_truncate(file, length) bind(c)
      import
      type(c_ptr), value :: file
      integer(c_int64_t), value :: length
    end function

    integer(c_int) function terrace_file_flush(file) bind(c)
      import
      type(c_ptr), value :: file
    end function

    integer(c_int) function terrace_file_sync(file) bind(c)
      import
      type(c_ptr), value :: file
    end function

    integer(c_int) function terrace_stat(store, key, info) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(terrace_info), intent(out) :: info
    end function

    integer(c_int) function terrace_list(store, prefix, visit, context) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: prefix(*)
      procedure(terrace_visit) :: visit
      type(c_ptr), value :: context
    end function

    integer(c_int) function terrace_rename(store, from, to) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: from(*), to(*)
    end function

    integer(c_int) function terrace_init(directory, configuration) bind(c)
      import
      character(kind=c_char), intent(in) :: directory(*), configuration(*)
    end function

    integer(c_int) function terrace_open(directory, application, store) bind(c)
      import
      character(kind=c_char), intent(in) :: directory(*)
      type(terrace_options), intent(in), optional :: application
      type(c_ptr), intent(out) :: store
    end function

    integer(c_int) function terrace_close(store) bind(c)
      import
      type(c_ptr), value :: store
    end function

    integer(c_int) function terrace_replicate(store, key, bytes, length, operation, receipt) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
      type(terrace_options), intent(in), optional :: operation
      type(terrace_receipt), intent(out), optional :: receipt
    end function

    integer(c_int) function terrace_write_at(store, key, offset, bytes, length, operation, receipt) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: offset
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
      type(terrace_options), intent(in), optional :: operation
      type(terrace_receipt), intent(out), optional :: receipt
    end function

    integer(c_int) function terrace_append(store, key, bytes, length, operation, offset, receipt) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
      type(terrace_options), intent(in), optional :: operation
      integer(c_int64_t), intent(out), optional :: offset
      type(terrace_receipt), intent(out), optional :: receipt
    end function

    integer(c_int) function terrace_read(store, key, offset, out, length, read) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), value :: offset
      type(*), intent(inout) :: out(*)
      integer(c_size_t), value :: length
      integer(c_size_t), intent(out) :: read
    end function

    integer(c_int) function terrace_length(store, key, length) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int64_t), intent(out) :: length
    end function

    integer(c_int) function terrace_locate(store, key, json) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr), intent(out) :: json
    end function

    integer(c_int) function terrace_copy(store, from, to) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: from(*), to(*)
    end function

    integer(c_int) function terrace_delete(store, key) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
    end function

    integer(c_int) function terrace_wait(store, receipt, level) bind(c)
      import
      type(c_ptr), value :: store
      type(terrace_receipt), intent(inout) :: receipt
      character(kind=c_char), intent(in) :: level(*)
    end function

    integer(c_int) function terrace_sync(store) bind(c)
      import
      type(c_ptr), value :: store
    end function

    integer(c_int) function terrace_plan(store, key, bytes, length, operation, json) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: key(*)
      type(*), intent(in) :: bytes(*)
      integer(c_size_t), value :: length
      type(terrace_options), intent(in), optional :: operation
      type(c_ptr), intent(out) :: json
    end function

    subroutine terrace_free(text) bind(c)
      import
      type(c_ptr), value :: text
    end subroutine

    integer(c_int) function terrace_stream_open(store, name, level, stream) bind(c)
      import
      type(c_ptr), value :: store
      character(kind=c_char), intent(in) :: name(*), level(*)
      type(c_ptr), intent(out) :: stream
    end function

    integer(c_int) function terrace_stream_close(stream) bind(c)
      import
      type(c_ptr), value :: stream
    end function

    integer(c_int) function terrace_stream_append(stream, requests, count, added) bind(c)
      import
      type(c_ptr), value :: stream
      type(terrace_request), intent(in) :: requests(*)
      integer(c_size_t), value :: count
      integer(c_size_t), intent(out), optional :: added
    end function

    integer(c_int) function terrace_stream_backlog(stream, requests, bytes) bind(c)
      import
      type(c_ptr), value :: stream
      integer(c_int64_t), intent(out), optional :: requests, bytes
    end function
  end interface

contains

  ! Returns a text of C as one of Fortran. A text in JSON still has to be passed to terrace_free.
  function terrace_text(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: copy
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    interface
      integer(c_size_t) function strlen(text) bind(c)
        import
        type(c_ptr), value :: text
      end function
    end interface

    allocate (character(strlen(text)) :: copy)
    call c_f_pointer(text, letters, [len(copy)])
    do i = 1, len(copy)
      copy(i:i) = letters(i)
    end do
  end function
end module
