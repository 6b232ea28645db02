package io.terrace.hadoop;

import com.sun.security.auth.module.UnixSystem;
import io.terrace.Ack;
import io.terrace.FileStat;
import io.terrace.Requirements;
import io.terrace.Store;
import io.terrace.StoreFile;
import io.terrace.StoreFiles;
import io.terrace.TerraceException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.time.Instant;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BufferedFSInputStream;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.impl.PathCapabilitiesSupport;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A store as a file system of Hadoop: {@code terrace:///runs/a} is the object {@code runs/a}. The configuration names the store's directory,
 * by {@code fs.terrace.store}; the environment does, by {@code TERRACE_STORE}. For {@code terrace://name/} it is {@code fs.terrace.store.name}.
 *
 * <p>It behaves as HDFS does: a new file is seen at once, its bytes after {@code hflush}; {@code hsync} makes them durable; a rename is atomic,
 * and never replaces a file. {@code fs.terrace.replicas} and {@code fs.terrace.ack} are requirements for all files.
 */
public final class TerraceFileSystem extends FileSystem {
    static final String URI_SCHEME = "terrace";

    private static final String STORE_KEY = "fs.terrace.store";
    private static final String STORE_VARIABLE = "TERRACE_STORE";
    private static final String REPLICAS_KEY = "fs.terrace.replicas";
    private static final String ACK_KEY = "fs.terrace.ack";
    private static final String BLOCK_SIZE_KEY = "fs.terrace.block.size";
    private static final long DEFAULT_BLOCK_BYTES = 128L << 20;
    private static final String BUFFER_SIZE_KEY = "io.file.buffer.size";
    private static final int MIN_BUFFER_BYTES = 64 << 10;

    private final UnixSystem self = new UnixSystem();
    private URI uri;
    private Path workingDirectory;
    private Store store;
    private StoreFiles files;

    /** Makes a file system that is still to be initialized, as Hadoop does. */
    public TerraceFileSystem() {}

    @Override
    public void initialize(URI name, Configuration configuration) throws IOException {
        super.initialize(name, configuration);
        setConf(configuration);
        String authority = name.getAuthority();
        uri = URI.create(URI_SCHEME + "://" + (authority == null ? "" : authority) + "/");
        workingDirectory = makeQualified(new Path("/user/" + System.getProperty("user.name")));
        store = Store.open(java.nio.file.Path.of(storeDirectory(authority, configuration)), requirements(configuration));
        files = store.files();
    }

    private static String storeDirectory(String authority, Configuration configuration) throws IOException {
        String key = authority == null ? STORE_KEY : STORE_KEY + "." + authority;
        String directory = configuration.getTrimmed(key, authority == null ? System.getenv(STORE_VARIABLE) : null);
        if (directory == null) {
            throw new IOException("no store is named: set " + key + " to the directory of one");
        }
        return directory;
    }

    private static Requirements requirements(Configuration configuration) {
        Requirements requirements = Requirements.NONE;
        String ack = configuration.getTrimmed(ACK_KEY);
        if (ack != null) {
            requirements = requirements.ack(Ack.valueOf(ack.toUpperCase(Locale.ROOT)));
        }
        int replicas = configuration.getInt(REPLICAS_KEY, 0);
        return replicas == 0 ? requirements : requirements.replicas(replicas);
    }

    @Override
    public String getScheme() {
        return URI_SCHEME;
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    public Path getWorkingDirectory() {
        return workingDirectory;
    }

    @Override
    public void setWorkingDirectory(Path directory) {
        workingDirectory = makeQualified(directory);
    }

    @Override
    @SuppressWarnings("deprecation")
    public long getDefaultBlockSize() {
        return getConf().getLongBytes(BLOCK_SIZE_KEY, DEFAULT_BLOCK_BYTES);
    }

    /** Returns the key of a path: its components below the root. */
    private String key(Path path) {
        checkPath(path);
        return makeQualified(path).toUri().getPath().substring(1);
    }

    /** Returns the attributes; null if nothing has this path. */
    private FileStat find(Path path) throws IOException {
        try {
            return files.stat(key(path));
        } catch (TerraceException.NotFound | TerraceException.NotDirectory none) {
            return null;
        }
    }

    private FileStat stat(Path path) throws IOException {
        FileStat found = find(path);
        if (found == null) {
            throw new FileNotFoundException(path + " does not exist");
        }
        return found;
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        if (stat(path).isDirectory()) {
            throw new FileNotFoundException(path + " is a directory");
        }
        TerraceInputStream bytes = new TerraceInputStream(files.open(key(path)), statistics);
        return new FSDataInputStream(new BufferedFSInputStream(bytes, bufferBytes(bufferSize)));
    }

    private static int bufferBytes(int asked) {
        return Math.max(asked, MIN_BUFFER_BYTES);
    }

    @Override
    public FSDataOutputStream create(
            Path path,
            FsPermission permission,
            boolean overwrite,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        Path parent = path.getParent();
        if (parent != null) {
            mkdirs(parent);
        }
        return createIn(path, permission, overwrite, bufferSize);
    }

    @Override
    public FSDataOutputStream createNonRecursive(
            Path path,
            FsPermission permission,
            EnumSet<CreateFlag> flags,
            int bufferSize,
            short replication,
            long blockSize,
            Progressable progress)
            throws IOException {
        FileStat parent = stat(makeQualified(path).getParent());
        if (!parent.isDirectory()) {
            throw new ParentNotDirectoryException(path.getParent() + " is not a directory");
        }
        return createIn(path, permission, flags.contains(CreateFlag.OVERWRITE), bufferSize);
    }

    private FSDataOutputStream createIn(Path path, FsPermission permission, boolean overwrite, int bufferSize)
            throws IOException {
        int mode = permission.applyUMask(FsPermission.getUMask(getConf())).toShort();
        StoreFile file;
        try {
            file = overwrite ? files.create(key(path), mode) : files.createNew(key(path), mode);
        } catch (TerraceException.Exists | TerraceException.IsDirectory error) {
            throw because(new FileAlreadyExistsException(path + " exists"), error);
        }
        if (overwrite) {
            file.setLength(0);
        }
        return new FSDataOutputStream(TerraceOutputStream.atStart(file, bufferBytes(bufferSize)), statistics);
    }

    private static <E extends IOException> E because(E error, IOException cause) {
        error.initCause(cause);
        return error;
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
        if (stat(path).isDirectory()) {
            throw new FileAlreadyExistsException(path + " is a directory");
        }
        StoreFile file = files.open(key(path));
        long length = file.length();
        return new FSDataOutputStream(TerraceOutputStream.atEnd(file, bufferBytes(bufferSize)), statistics, length);
    }

    @Override
    public boolean truncate(Path path, long length) throws IOException {
        FileStat found = stat(path);
        if (found.isDirectory()) {
            throw new FileNotFoundException(path + " is a directory");
        }
        if (length < 0 || length > found.length()) {
            throw new IllegalArgumentException(path + " has " + found.length() + " bytes, and cannot be cut to " + length);
        }
        try (StoreFile file = files.open(key(path))) {
            file.setLength(length);
        }
        return true;
    }

    /** Like HDFS, returns false where nothing is renamed, and moves into a directory that is there. */
    @Override
    public boolean rename(Path from, Path to) throws IOException {
        Path source = makeQualified(from);
        Path target = makeQualified(to);
        FileStat moved = find(source);
        if (moved == null || source.isRoot()) {
            return false;
        }
        FileStat there = find(target);
        if (there != null && source.equals(target)) {
            return !moved.isDirectory();
        }
        if (there != null && there.isDirectory()) {
            target = new Path(target, source.getName());
        } else if (there != null) {
            return false;
        }
        try {
            files.rename(key(source), key(target), false);
            return true;
        } catch (TerraceException.Exists
                | TerraceException.NotFound
                | TerraceException.NotDirectory
                | TerraceException.NotEmpty error) {
            LOG.debug("renaming {} to {}", source, target, error);
            return false;
        }
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        FileStat found = find(path);
        if (found == null) {
            return false;
        }
        Path deleted = makeQualified(path);
        if (found.isDirectory()) {
            List<FileStat> entries = files.list(key(deleted));
            if (!recursive && !entries.isEmpty()) {
                throw new PathIsNotEmptyDirectoryException(path.toString());
            }
            // As for HDFS, the root stays, with what is in it.
            return !deleted.isRoot() && deleteDirectory(deleted, entries);
        }
        return deleteFile(deleted);
    }

    @Override
    public BulkDelete createBulkDelete(Path base) {
        return new TerraceBulkDelete(this, makeQualified(base));
    }

    private boolean deleteDirectory(Path directory, List<FileStat> entries) throws IOException {
        for (FileStat entry : entries) {
            Path path = new Path(directory, entry.name());
            if (entry.isDirectory()) {
                deleteDirectory(path, files.list(key(path)));
            } else {
                deleteFile(path);
            }
        }
        try {
            files.removeDirectory(key(directory));
        } catch (TerraceException.NotFound gone) {
            return false;
        }
        return true;
    }

    private boolean deleteFile(Path path) throws IOException {
        try {
            files.remove(key(path));
        } catch (TerraceException.NotFound gone) {
            return false;
        }
        return true;
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Path directory = makeQualified(path);
        FileStat found = find(directory);
        if (found != null && !found.isDirectory()) {
            throw new FileAlreadyExistsException(path + " is a file");
        }
        if (found != null) {
            return true;
        }
        try {
            mkdirs(directory.getParent(), permission);
        } catch (FileAlreadyExistsException error) {
            throw because(new ParentNotDirectoryException(directory.getParent() + " is not a directory"), error);
        }
        try {
            files.makeDirectory(key(directory), permission.applyUMask(FsPermission.getUMask(getConf())).toShort());
        } catch (TerraceException.Exists error) {
            // Another process may have made it meanwhile.
            return mkdirs(directory, permission);
        }
        return true;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return status(makeQualified(path), stat(path));
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        Path directory = makeQualified(path);
        FileStat found = stat(directory);
        if (!found.isDirectory()) {
            return new FileStatus[] {status(directory, found)};
        }
        return files.list(key(directory)).stream()
                .map(entry -> status(new Path(directory, entry.name()), entry))
                .toArray(FileStatus[]::new);
    }

    private FileStatus status(Path path, FileStat stat) {
        return new FileStatus(
                stat.length(),
                stat.isDirectory(),
                stat.isDirectory() ? 0 : 1,
                stat.isDirectory() ? 0 : getDefaultBlockSize(),
                stat.modified().toEpochMilli(),
                stat.accessed().toEpochMilli(),
                new FsPermission((short) (stat.mode() & 07777)),
                userName(stat.user()),
                Integer.toString(stat.group()),
                null,
                path);
    }

    /** Java knows the name of its own user only. Hadoop compares it with the owners of some folders. */
    private String userName(int user) {
        return user == self.getUid() ? self.getUsername() : Integer.toString(user);
    }

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        stat(path);
        files.setMode(key(path), permission.toShort());
    }

    @Override
    public void setTimes(Path path, long modified, long accessed) throws IOException {
        stat(path);
        files.setTimes(key(path), time(modified), time(accessed));
    }

    /** As Hadoop has it, -1 leaves a time as it is. */
    private static Instant time(long milliseconds) {
        return milliseconds == -1 ? null : Instant.ofEpochMilli(milliseconds);
    }

    @Override
    public FsStatus getStatus(Path path) throws IOException {
        long total = files.totalSpace();
        long free = files.freeSpace();
        return new FsStatus(total, Math.max(total - free, 0), free);
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        switch (PathCapabilitiesSupport.validatePathCapabilityArgs(makeQualified(path), capability)) {
            case CommonPathCapabilities.FS_APPEND:
            case CommonPathCapabilities.FS_PERMISSIONS:
            case CommonPathCapabilities.FS_TRUNCATE:
                return true;
            default:
                return super.hasPathCapability(path, capability);
        }
    }

    @Override
    public void close() throws IOException {
        super.close();
        if (store != null) {
            store.close();
        }
    }
}
