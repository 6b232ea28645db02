# Builds, tests and shows Terrace. Each target says what it runs.
CARGO ?= cargo
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := build
.PHONY: needed needed-by-tests build demo demo-cluster test golden lint deny soak memcheck bench bench-quick bench-full measured install servers etcd etcd-test packages tools python python-installed python-released python-test mpi mpi-test mpi-installed slurm-installed install-mpi peers

needed:
	@command -v $(CARGO) > /dev/null || { echo "Rust is missing: https://rustup.rs installs it, and takes the version of rust-toolchain.toml"; exit 1; }
	@command -v cc > /dev/null || { echo "a C compiler is missing: apt-get install gcc libc6-dev, or what your system has"; exit 1; }

# The tests' servers and programs are packages of Debian and Ubuntu.
needed-by-tests: needed
	@python3 -c "import ensurepip, sys, venv; assert sys.version_info >= (3, 11)" 2> /dev/null || { \
	  echo "Python 3.11 with venv is missing: apt-get install python3 python3-venv"; exit 1; }
	@command -v apt-get > /dev/null || { echo "the tests install packages by apt-get, which is missing: run them on Debian or Ubuntu"; exit 1; }
	@[ "$$(id -u)" = 0 ] || command -v sudo > /dev/null || { echo "the tests install packages: run them as root, or install sudo"; exit 1; }

build: needed ## the development binary, target/debug/terrace
	$(CARGO) build --bins

PROGRAMS := redis-server memcached memccapable sshd ssh git sqlite3 fusermount3 g++ gfortran pkg-config protoc valgrind strace rsync vim mkfs.ext4 mkfs.xfs mkfs.btrfs curl javac mvn setfattr busybox tclsh patch column rev rclone
PACKAGES := redis-server memcached libmemcached-tools openssh-server openssh-client git sqlite3 fuse3 g++ gfortran pkg-config protobuf-compiler libprotobuf-dev valgrind strace rsync vim e2fsprogs xfsprogs btrfs-progs curl default-jdk-headless maven attr busybox-static tcl patch bsdextrautils rclone

servers: packages target/servers/installed target/servers/hdfs/installed target/servers/java/installed target/servers/hadoop/installed target/servers/redis/installed target/servers/redis-py/installed target/servers/fsspec/installed ## real servers and programs that tests use

packages:
	@command -v $(PROGRAMS) | wc -l | grep -qx $(words $(PROGRAMS)) || { \
	  root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$root apt-get update -qq && $$root apt-get install -qq -y $(PACKAGES) > /dev/null; }

# Servers written in Python, in an environment of their own: what they need gets along with nothing else's needs.
target/servers/installed: crates/engine/terrace/tests/services/requirements.txt
	python3 -m venv target/servers
	target/servers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The tests of Redis and of redis-py. Without them, these tests are skipped, or fail where TERRACE_TEST_REQUIRE names redis.
REDIS_TESTS := 7.0.15
REDIS_TESTS_SHA256 := 4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982
target/servers/redis/installed: | packages
	rm -rf $(@D) && mkdir -p $(@D)
	curl -sSfL -o $(@D)/redis.tar.gz http://deb.debian.org/debian/pool/main/r/redis/redis_$(REDIS_TESTS).orig.tar.gz \
	  && echo "$(REDIS_TESTS_SHA256)  $(@D)/redis.tar.gz" | sha256sum --check --quiet && tar -xzf $(@D)/redis.tar.gz -C $(@D) \
	  && touch $@ || echo "skipped: the tests of Redis cannot be fetched here"

REDIS_PY := 8.1.0
REDIS_PY_SHA256 := 6e1a19beef9225c83efd689c7e6b7da2d5215b1f42cd13b7fc3714d0a09c7b25
target/servers/redis-py/installed: | target/servers/installed
	rm -rf $(@D) && mkdir -p $(@D)
	target/servers/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary redis --dest $(@D) redis==$(REDIS_PY) \
	  && echo "$(REDIS_PY_SHA256)  $(@D)/redis-$(REDIS_PY).tar.gz" | sha256sum --check --quiet \
	  && tar -xzf $(@D)/redis-$(REDIS_PY).tar.gz -C $(@D) && rm -rf $(@D)/redis-$(REDIS_PY)/redis \
	  && touch $@ || echo "skipped: the tests of redis-py cannot be fetched here"

# The tests of fsspec, which its packages lack. Without them, the test that runs them is skipped, or fails where TERRACE_TEST_REQUIRE names fsspec.
FSSPEC_COMMIT := 9e22b60ea6e96fbe8635e88cc71909bdd2850e60
target/servers/fsspec/installed:
	rm -rf $(@D)
	git clone -q https://github.com/fsspec/filesystem_spec $(@D) \
	  && git -C $(@D) checkout -q $(FSSPEC_COMMIT) \
	  && touch $@ || echo "skipped: the tests of fsspec cannot be fetched here"

# Hadoop's jars. Without them, the tests of HDFS are skipped, or fail where TERRACE_TEST_REQUIRE names hdfs.
target/servers/hdfs/installed: crates/engine/terrace/tests/services/hdfs/pom.xml | packages
	rm -rf $(@D)
	mvn -q -B -Dstyle.color=never -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D)) \
	  && touch $@ || echo "skipped: HDFS cannot be installed here"

# JUnit, and Hadoop with its own tests. Without them, the tests of the Java library are skipped, or fail where TERRACE_TEST_REQUIRE names java.
target/servers/java/installed: crates/doors/java/pom.xml | packages
target/servers/hadoop/installed: crates/doors/java/hadoop/pom.xml | packages
target/servers/java/installed target/servers/hadoop/installed:
	rm -rf $(@D)
	mvn -q -B -Dstyle.color=never -f $< dependency:copy-dependencies -DincludeScope=test -DoutputDirectory=$(abspath $(@D)) \
	  && touch $@ || echo "skipped: the jars of $(@D) cannot be installed here"

# Spark, for a test of `make soak`.
target/servers/spark/installed: | packages
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet pyspark==3.5.9
	touch $@

# Ceph's suite for servers of S3. Without it, its test is skipped.
S3_TESTS_COMMIT := 8f0ae7b404a3a2fcf7038bf1e6bf29544fe9b6a3
target/servers/s3-tests/venv/installed:
	rm -rf target/servers/s3-tests
	git clone -q https://github.com/ceph/s3-tests target/servers/s3-tests \
	  && git -C target/servers/s3-tests checkout -q $(S3_TESTS_COMMIT) \
	  && python3 -m venv $(@D) && $(@D)/bin/pip install --quiet --disable-pip-version-check -r target/servers/s3-tests/requirements.txt pytest-timeout==2.4.0 \
	  && touch $@ || echo "skipped: s3-tests cannot be fetched here"

# HPCCG, for a test of `terrace dump run` in `make soak`. Without it, the test is skipped.
HPCCG_COMMIT := 80dd2f12a4e8aa70c330a5686cdda3fd187c2545
target/servers/hpccg/installed: | mpi-installed
	rm -rf $(@D)
	git clone -q https://github.com/Mantevo/HPCCG $(@D) \
	  && git -C $(@D) checkout -q $(HPCCG_COMMIT) \
	  && $(MAKE) -s -C $(@D) CXX=mpicxx LINKER=mpicxx USE_MPI=-DUSING_MPI \
	  && touch $@ || echo "skipped: HPCCG cannot be fetched or built here"

GO := $(or $(shell command -v go),/usr/local/go/bin/go)
etcd: target/servers/etcd/etcd ## etcd, which keeps a log that nodes share; built by Go

# Without it, the tests of shared logs are skipped, or fail where TERRACE_TEST_REQUIRE names etcd.
target/servers/etcd/etcd: crates/storage/order/tests/etcd/server/go.mod crates/storage/order/tests/etcd/server/go.sum
	@$(GO) version > /dev/null 2>&1 && cd $(<D) && $(GO) build -trimpath -o $(abspath $@) go.etcd.io/etcd/server/v3 \
	  || echo "skipped: etcd cannot be built here; it needs Go"

tools: target/tools/bin/fsx target/tools/bin/pjdfstest ## suites for file systems, built from crates.io

target/tools/bin/%:
	$(CARGO) install --quiet --locked --root target/tools --target-dir target/tools/build $(TOOL_$*)
TOOL_fsx := --debug fsx@0.3.2
TOOL_pjdfstest := --debug pjdfstest@0.2.2
TOOL_typos := typos-cli@1.52.0
TOOL_cargo-deny := cargo-deny@0.20.2

# PyTorch, and JAX with Orbax, for tests of `make soak`: 5.3 and 0.7 GB.
target/servers/torch/installed target/servers/orbax/installed: | target/python/installed
	rm -rf $(@D)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --target $(@D) $(MODULES_$(notdir $(@D)))
	touch $@
MODULES_torch := torch==2.15.0
MODULES_orbax := orbax-checkpoint==0.12.8 jax==0.10.2

PYTHON := target/python/bin/python
MATURIN = $(PYTHON) -m maturin build --manifest-path crates/doors/python/Cargo.toml
SITE = $$(echo target/python/lib/python3*/site-packages)
INSTALLED = $(SITE)/terrace $(SITE)/terrace_store-*

target/python/installed: crates/doors/python/requirements.txt
	python3 -m venv target/python
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The services that the wheel speaks to. Any other one of terrace-python's features may be named, too.
PYTHON_SERVICES ?= azblob gcs http s3 sftp webdav
python: target/python/installed target/python/zig ## the Python package as a wheel, target/wheels
	rm -rf target/wheels
	PATH="$(CURDIR)/target/python/bin:$$PATH" $(MATURIN) --release --strip --quiet --features "$(PYTHON_SERVICES:%=services-%)" --out target/wheels \
	  $$(! test -e target/python/zig || echo "--zig --compatibility $(MANYLINUX)")
	@ls target/wheels/*.whl

# Zig links to an older glibc than that of this machine. Without it, the wheel needs this machine's or a newer one.
MANYLINUX := manylinux_2_28
target/python/zig: | target/python/installed
	$(PYTHON) -m pip install --quiet --disable-pip-version-check ziglang==0.17.1 && touch $@ \
	  || echo "skipped: zig cannot be installed here, so the wheel is not one of $(MANYLINUX)"

# The module of the workspace's build, beside which nothing is compiled again: `maturin build` would choose other features.
python-installed: target/python/installed
	$(CARGO) build --bins --lib --examples $(FEATURES)
	rm -rf $(INSTALLED)
	$(PYTHON) -m maturin pep517 write-dist-info --manifest-path crates/doors/python/Cargo.toml --metadata-directory $(SITE) > /dev/null
	cp -r crates/doors/python/python/terrace $(SITE)
	cp target/debug/libterrace_python.so $(SITE)/terrace/_terrace.abi3.so

python-released: python
	rm -rf $(INSTALLED)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps target/wheels/*.whl

CHECKED = --no-cache --config pyproject.toml . ../../../bench/python ../../../bench/peers
PYTEST = cd crates/doors/python && PYTHONDONTWRITEBYTECODE=1 timeout 600 ../../../$(PYTHON) -m pytest
python-test: python-installed ## the Python package's tests, on a development build
	cd crates/doors/python && ../../../$(PYTHON) -m ruff check --quiet $(CHECKED) && ../../../$(PYTHON) -m ruff format --check --quiet $(CHECKED)
	$(PYTEST)

java: needed ## the Java library as a jar, target/java/terrace.jar
	@command -v javac > /dev/null || { echo "javac is missing; Debian and Ubuntu have it: apt-get install default-jdk-headless"; exit 1; }
	$(CARGO) build --release -p terrace-java
	crates/doors/java/package target/release/libterrace_java.so target/java
	@ls target/java/terrace.jar

hadoop: java target/servers/hadoop/installed ## the file system for Hadoop and Spark as a jar, target/java/terrace-hadoop.jar
	crates/doors/java/hadoop/package target/java target/servers/hadoop
	@ls target/java/terrace-hadoop.jar

PEERS := rclone restic rsync
peers: target/peers/versitygw/versitygw ## what the bench puts beside Terrace: rclone, restic, rsync; in target/peers, with Go, versitygw, and with python3.11, IOWarp and Blosc2's BTune
	@command -v $(PEERS) | wc -l | grep -qx $(words $(PEERS)) || { \
	  root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$root apt-get update -qq && $$root apt-get install -qq -y $(PEERS) > /dev/null; }
	@test -x target/peers/iowarp/bin/clio_run || { python3.11 -m venv target/peers/iowarp && \
	  target/peers/iowarp/bin/pip install --quiet --disable-pip-version-check -r bench/peers/iowarp.txt; } || \
	  echo "skipped: IOWarp cannot be installed here"
	@ls target/peers/btune/lib/*/site-packages/blosc2_btune > /dev/null 2>&1 || { python3.11 -m venv target/peers/btune && \
	  target/peers/btune/bin/pip install --quiet --disable-pip-version-check -r bench/peers/btune.txt; } || \
	  echo "skipped: Blosc2's BTune cannot be installed here"

target/peers/versitygw/versitygw: bench/peers/versitygw/go.mod bench/peers/versitygw/go.sum
	@$(GO) version > /dev/null 2>&1 && cd $(<D) && $(GO) build -trimpath -o $(abspath $@) github.com/versity/versitygw/cmd/versitygw \
	  || echo "skipped: versitygw cannot be built here; it needs Go"

MPI_PACKAGES := libopenmpi-dev openmpi-bin libclang-dev python3-mpi4py
MPI_FEATURES := terrace-dump-mpi/mpi,terrace-dump-run/mpi
# SERVICES="s3 gcs" are those to which versions of dumps may flow.
MPI = -p terrace-dump-mpi -p terrace-dump-run --features "$(MPI_FEATURES) $(SERVICES:%=terrace-dump-mpi/services-%)"

mpi-installed: ## OpenMPI with what its bindings are made with, and mpi4py
	@command -v mpirun mpicc > /dev/null && /usr/bin/python3 -c "import mpi4py" 2> /dev/null \
	  && ls /usr/lib/llvm-*/lib/libclang*.so* > /dev/null 2>&1 || { \
	  root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$root apt-get update -qq && $$root apt-get install -qq -y $(MPI_PACKAGES) > /dev/null; }

SLURM_PACKAGES := slurm-wlm munge
slurm-installed: ## Slurm, in which a test runs jobs on this machine
	@command -v slurmctld slurmd munged > /dev/null || { \
	  root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$root apt-get update -qq && $$root apt-get install -qq -y $(SLURM_PACKAGES) > /dev/null; }

mpi: mpi-installed ## what dumps under mpirun: target/debug/terrace-dump, the library for C, and the one for programs without code for checkpoints
	$(CARGO) build $(MPI) --lib --bins --examples

mpi-test: mpi-installed ## dumps of real MPI ranks
	$(CARGO) build --bins --lib --examples $(ALL_FEATURES)
	$(CARGO) test --workspace $(ALL_FEATURES) --test mpirun

# Tests that wait for servers and leases most of the time, so that more of them run at once than the machine has cores.
WAITING := --test cluster --test services -- --test-threads=4

ETCD_FEATURES := terrace-cli/cluster,terrace-order/etcd,terrace-member/etcd,terrace-bench/cluster
IN_ETCD := --features $(ETCD_FEATURES)
etcd-test: packages etcd ## stores that nodes share, whose log three members of etcd keep
	timeout 600 $(CARGO) test --workspace $(IN_ETCD) --test etcd --test cluster --test cluster_access

# The same features for all builds, so that things compile once.
ALL_FEATURES := --features $(ETCD_FEATURES),$(MPI_FEATURES)
test: export FEATURES = $(ALL_FEATURES)
test: needed-by-tests packages mpi-installed ## every test, the long ones at a tenth of their counts; the demo
	$(MAKE) -j2 servers tools etcd target/python/installed
	$(CARGO) build --bins --lib --examples $(FEATURES)
	$(CARGO) test --workspace $(FEATURES)
	$(CARGO) test --workspace $(FEATURES) $(WAITING)
	$(MAKE) python-test
	demo/run > /dev/null

GOLDEN := TERRACE_WRITE_GOLDEN=1 TERRACE_LOG_FILE=1024 TERRACE_STAGE_BYTES=65536
golden: ## golden stores and records that are not there yet; those that are there are never written again
	$(GOLDEN) $(CARGO) test -p terrace --test golden --test format
	$(GOLDEN) $(CARGO) test -p terrace-datasets -p terrace-dump -p terrace-redis -p terrace-stream --test golden

lint: needed-by-tests packages mpi-installed target/tools/bin/typos ## formatting, clippy and docs, warnings denied; what crates may use; spelling and language
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets $(ALL_FEATURES) -- -D warnings
	$(CARGO) check --quiet -p terrace-cli
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet $(ALL_FEATURES)
	$(CARGO) test --quiet --workspace $(ALL_FEATURES) --test layers --test circles --test language
	target/tools/bin/typos

deny: target/tools/bin/cargo-deny ## licences, origins and duplicates of the crates that Terrace is built of
	target/tools/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

demo: needed ## what Terrace does, on made files or on those in DATA
	$(CARGO) build --bins --examples
	@demo/run $(DATA)

demo-cluster: packages etcd ## one store on three nodes: writes on one, reads on another, kills one
	$(CARGO) build --bins --examples $(IN_ETCD)
	@demo/cluster

install: needed ## the binary, into cargo's bin directory; with PREFIX: there, with the libraries; with SERVICES="s3 http": for buckets and servers
ifndef PREFIX
	$(CARGO) install --path crates/doors/cli --features "$(SERVICES:%=services-%)"
else
	$(CARGO) build --profile $(PROFILE) -p terrace-cli -p terrace-c -p terrace-brain -p terrace-preload -p terrace-hdf5 --features "$(SERVICES:%=terrace-cli/services-%)"
	install -D target/$(BUILT)/terrace $(DESTDIR)$(PREFIX)/bin/terrace
	install -D target/$(BUILT)/libterrace_c.so $(DESTDIR)$(PREFIX)/lib/libterrace.so
	install -D target/$(BUILT)/libterrace_brain.so $(DESTDIR)$(PREFIX)/lib/libterrace_brain.so
	install -D target/$(BUILT)/libterrace_preload.so $(DESTDIR)$(PREFIX)/lib/libterrace_preload.so
	install -D target/$(BUILT)/libterrace_hdf5.so $(DESTDIR)$(PREFIX)/lib/terrace/hdf5/libterrace_hdf5.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include $(wildcard crates/doors/c/include/* crates/doors/brain/include/*)
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	for described in c/terrace brain/terrace_brain; do \
	  sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' crates/doors/$$described.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/$${described#*/}.pc || exit 1; done
endif
PROFILE ?= release
BUILT = $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

install-mpi: mpi-installed ## with PREFIX: terrace-dump, and the libraries for C, C++, Fortran and Python and for programs without code for checkpoints; with SERVICES: for buckets
	$(CARGO) build --profile $(PROFILE) $(MPI)
	install -D target/$(BUILT)/terrace-dump $(DESTDIR)$(PREFIX)/bin/terrace-dump
	install -D target/$(BUILT)/libterrace_dump_mpi.so $(DESTDIR)$(PREFIX)/lib/libterrace_dump.so
	install -D target/$(BUILT)/libterrace_dump_run.so $(DESTDIR)$(PREFIX)/lib/libterrace_dump_run.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include $(wildcard crates/dump/dump-mpi/include/*)
	install -D -m 644 crates/dump/dump-mpi/python/terrace_dump.py $(DESTDIR)$(PREFIX)/lib/python/terrace_dump.py

# Each buffer of these tests is a block of memory of its own. The seed makes each run the same.
memcheck: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER = valgrind -q --error-exitcode=1 --partial-loads-ok=no --redzone-size=256
memcheck: export PROPTEST_RNG_SEED = 1
memcheck: servers ## the unsafe code of the kernels, under valgrind
	$(CARGO) test -p terrace-kernels --tests --no-run
	timeout 300 $(CARGO) test -p terrace-kernels --tests

REDIS_UNITS := type/string type/incr type/hash type/list type/list-2 type/set type/zset keyspace scan expire multi protocol bitops sort
# Each run has another seed, which repeats it.
soak: export TERRACE_SEED := $(or $(TERRACE_SEED),$(shell date +%s))
soak: python-installed slurm-installed memcheck deny etcd target/servers/s3-tests/venv/installed target/servers/hpccg/installed target/servers/spark/installed target/servers/torch/installed target/servers/orbax/installed target/peers/versitygw/versitygw ## the long counts: kills, faults, power losses, operations, hostile bytes
	@echo "TERRACE_SEED=$$TERRACE_SEED"
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	for service in azblob fs gcs hdfs-native http memory redis s3 sftp webdav webhdfs; do $(CARGO) check --quiet -p terrace-cli --features services-$$service || exit 1; done
	TERRACE_KILLS=1000 $(CARGO) test -p terrace --test kill -- --nocapture
	TERRACE_POWER=1000 $(CARGO) test -p terrace --test power -- --nocapture
	TERRACE_POWER=100 $(CARGO) test -p terrace-cli --test power -- --nocapture
	TERRACE_OVERWRITES=200000 $(CARGO) test -p terrace --test catalog_size -- --nocapture
	TERRACE_CALLS=100 $(CARGO) test -p terrace --test failing -- --nocapture
	TERRACE_FSX=100000 TERRACE_FSX_SEEDS=3 $(CARGO) test -p terrace-mount --test posix -- --nocapture
	TERRACE_FSX=100000 TERRACE_FSX_SEEDS=4 $(CARGO) test -p terrace-preload --test programs fsx -- --nocapture
	TERRACE_KILLS=110 $(CARGO) test -p terrace-preload --test kills -- --nocapture
	TERRACE_VALGRIND=3 $(CARGO) test -p terrace-c --test programs valgrind -- --nocapture
	TERRACE_KILLS=500 $(CARGO) test -p terrace --test appends -- --nocapture
	TERRACE_MOUNT_MIB=3072 TERRACE_UNMOUNTS=200 $(CARGO) test -p terrace-cli --test mount -- --nocapture
	TERRACE_FILES=3000 $(CARGO) test -p terrace --test files -- --nocapture
	TERRACE_CONVERSIONS=100000 $(CARGO) test -p terrace-views --test conversion -- --nocapture
	TERRACE_DATASETS=5000 $(CARGO) test -p terrace-datasets --test random -- --nocapture
	TERRACE_KILLS=600 $(CARGO) test -p terrace-datasets --test kill -- --nocapture
	TERRACE_KILLS=500 TERRACE_REQUESTS=1000000 $(CARGO) test -p terrace-stream --test kill -- --nocapture
	TERRACE_POWER=200 $(CARGO) test -p terrace-stream --test power -- --nocapture
	TERRACE_REMOVALS=1000 $(CARGO) test -p terrace-stream --test dropped -- --nocapture
	TERRACE_RUNS=3000 $(CARGO) test -p terrace-order --test simulation -- --nocapture
	TERRACE_SERVER_KILLS=20 $(CARGO) test --workspace $(IN_ETCD) --test services -- --nocapture
	TERRACE_FAULTS=200 TERRACE_COUNTS=3000 TERRACE_NODE_KILLS=100 $(CARGO) test --workspace $(IN_ETCD) --test etcd --test cluster -- --nocapture
	TERRACE_HISTORY_MS=60000 $(CARGO) test -p terrace --test processes -- --nocapture
	$(PYTEST) -s tests/test_zarr_types.py
	export TERRACE_CACHE_BLOCKS=512 TERRACE_CACHE_BLOCK_BYTES=65536 TERRACE_TEST_REQUIRE=s3; $(PYTEST) -o faulthandler_timeout=550 tests/test_cache_s3.py -k small_cache
	export TERRACE_H5PY=all; $(PYTEST) -s tests/test_h5py_suite.py
	export TERRACE_KILLS=50; $(PYTEST) tests/test_hdf5_driver.py -k kill
	export TERRACE_KILLS=10 TERRACE_TEST_REQUIRE=torch PYTHONPATH=$(CURDIR)/target/servers/torch; $(PYTEST) tests/test_checkpoint.py
	export TERRACE_TEST_REQUIRE=s3,torch PYTHONPATH=$(CURDIR)/target/servers/torch; $(PYTEST) tests/test_loader.py tests/test_guide.py
	$(MAKE) python-released
	export TERRACE_TEST_REQUIRE=s3,services; $(PYTEST) tests/test_services.py
	export TERRACE_TEST_REQUIRE=wheel TERRACE_WHEEL=$$(ls $(CURDIR)/target/wheels/*.whl); $(PYTEST) -o faulthandler_timeout=550 tests/test_wheel.py
	$(MAKE) python-installed
	export TERRACE_TEST_REQUIRE=orbax PYTHONPATH=$(CURDIR)/target/servers/orbax; $(PYTEST) -o faulthandler_timeout=550 tests/test_orbax.py
	CASES=250000 $(CARGO) test -p terrace-codec --test hostile -- --nocapture
	CASES=250000 $(CARGO) test -p terrace-predict --test metadata -- --nocapture
	CASES=50000 $(CARGO) test -p terrace-views --test import -- --nocapture
	CASES=1000000 $(CARGO) test -p terrace-nine --test hostile -- --nocapture
	CASES=160000 $(CARGO) test -p terrace-redis --test limits -- --nocapture
	CASES=160000 $(CARGO) test -p terrace-redis --test memcached limits -- --nocapture
	CASES=20000 $(CARGO) test -p terrace-redis --test memcached -- --skip limits --nocapture
	TERRACE_KILLS=100 $(CARGO) test -p terrace-cli --test serve_redis --test serve_memcached -- --nocapture
	TERRACE_REDIS_UNITS="$(REDIS_UNITS)" TERRACE_REDIS_PY=all $(CARGO) test -p terrace-cli --test redis_suites -- --nocapture
	CASES=20000 $(CARGO) test -p terrace-hostile --test mutations -- --nocapture
	cp Cargo.lock fuzz/Cargo.lock && $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz
	TERRACE_KILLS=300 $(CARGO) test -p terrace-cli --test serve -- --nocapture
	TERRACE_KILLS=300 $(CARGO) test -p terrace-cli --test serve_s3 -- --nocapture
	CASES=1000000 $(CARGO) test -p terrace-s3 --test requests -- --nocapture
	test ! -e target/servers/s3-tests/venv/installed || TERRACE_S3_TESTS=$(CURDIR)/target/servers/s3-tests $(CARGO) test -p terrace-s3 --test s3_tests -- --nocapture
	TERRACE_KILLS=300 $(CARGO) test -p terrace-cli --test node -- --nocapture
	export TERRACE_LINES=200; $(PYTEST) tests/test_transactions.py
	TERRACE_KILLS=100 $(CARGO) test -p terrace-java -- --include-ignored --nocapture
	$(CARGO) test -p terrace-cli --features terrace-cli/cluster --test slurm -- --nocapture --test-threads=1
	$(CARGO) build --bins --lib --examples $(ALL_FEATURES)
	$(CARGO) test --workspace $(ALL_FEATURES) --test mpirun hpccg -- --nocapture
	TERRACE_STEPS=6000 $(CARGO) test -p terrace-cli --test model -- --nocapture
	$(CARGO) build --release -p terrace-cli
	TERRACE_RELEASED=$(CURDIR)/target/release/terrace $(CARGO) test -p terrace-cli --test cli released -- --ignored

bench: SIZE = usual
bench-full: SIZE = full
bench bench-full: python-released target/servers/installed peers measured ## each figure beside the paper's or a peer's; docs/benchmarks.{json,md} and its plots
	target/release/terrace-bench --size $(SIZE) --write docs

bench-quick: measured ## the papers' evaluations in virtual time
	target/release/terrace-bench --size quick H1 H5 H6 C0 C4 C5 C6 C7

MEASURED := terrace-dump-mpi/mpi,terrace-dump-run/mpi,terrace-cli/cluster,terrace-cli/services-redis,terrace-bench/cluster
measured: mpi-installed packages etcd ## what is measured, as it is installed
	$(CARGO) build --release -p terrace-bench -p terrace-cli -p terrace-dump-mpi -p terrace-dump-run -p terrace-hdf5 --features $(MEASURED) --bins --lib --example cg
	$(CARGO) build --release -p terrace-preload --features terrace-cli/cluster,terrace-cli/services-redis -p terrace-cli
