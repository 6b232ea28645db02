package io.terrace;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * The objects of a store as a tree of files, as a mount shows them. A path is an object's key, such as {@code runs/a}; the empty path is the root.
 * New files belong to the user of this process. No call follows symbolic links.
 */
public final class StoreFiles {
    private static final long KEPT_ATTRIBUTE = Long.MIN_VALUE;

    private final NativeFiles calls;
    private final long store;

    StoreFiles(Native calls, long store) {
        this.calls = new NativeFiles(calls);
        this.store = store;
    }

    private StoreFile opened(long file) {
        return new StoreFile(calls.store, store, file);
    }

    /**
     * Opens a file, to read and to write it.
     *
     * @param path the path
     * @return the file
     * @throws TerraceException.NotFound if there is none
     * @throws TerraceException.IsDirectory if it is a directory
     * @throws TerraceException if it fails
     */
    public StoreFile open(String path) throws TerraceException {
        return opened(calls.open(store, Keys.encode(path)));
    }

    /**
     * Creates a file and opens it; opens a file that is there already.
     *
     * @param path the path, in a directory that is there
     * @param mode the permission bits of a new file, such as {@code 0644}
     * @return the file
     * @throws TerraceException if it fails
     */
    public StoreFile create(String path, int mode) throws TerraceException {
        return opened(calls.create(store, Keys.encode(path), mode, false));
    }

    /**
     * Creates a file that is not there yet, and opens it. Of several processes that try, one succeeds.
     *
     * @param path the path, in a directory that is there
     * @param mode the permission bits, such as {@code 0644}
     * @return the file
     * @throws TerraceException.Exists if something has this path
     * @throws TerraceException if it fails
     */
    public StoreFile createNew(String path, int mode) throws TerraceException {
        return opened(calls.create(store, Keys.encode(path), mode, true));
    }

    /**
     * Returns the attributes of a file, a directory or a symbolic link.
     *
     * @param path the path
     * @return the attributes
     * @throws TerraceException.NotFound if there is none
     * @throws TerraceException if it fails
     */
    public FileStat stat(String path) throws TerraceException {
        return new FileStat(path.substring(path.lastIndexOf('/') + 1), calls.stat(store, Keys.encode(path)));
    }

    /**
     * Lists a directory. What is removed meanwhile may be missing.
     *
     * @param path the path
     * @return the attributes of all that is in it
     * @throws TerraceException.NotFound if there is none
     * @throws TerraceException.NotDirectory if it is no directory
     * @throws TerraceException if it fails
     */
    public List<FileStat> list(String path) throws TerraceException {
        Object[] found = calls.list(store, Keys.encode(path));
        List<FileStat> entries = new ArrayList<>(found.length / 2);
        for (int at = 0; at < found.length; at += 2) {
            entries.add(new FileStat(Keys.decode((byte[]) found[at]), (long[]) found[at + 1]));
        }
        return entries;
    }

    /**
     * Makes a directory.
     *
     * @param path the path, in a directory that is there
     * @param mode the permission bits, such as {@code 0755}
     * @throws TerraceException.Exists if something has this path
     * @throws TerraceException if it fails
     */
    public void makeDirectory(String path, int mode) throws TerraceException {
        calls.makeDirectory(store, Keys.encode(path), mode);
    }

    /**
     * Removes a file or a symbolic link. A file that is open exists until it is closed.
     *
     * @param path the path
     * @throws TerraceException if it fails
     */
    public void remove(String path) throws TerraceException {
        calls.remove(store, Keys.encode(path));
    }

    /**
     * Removes an empty directory.
     *
     * @param path the path
     * @throws TerraceException.NotEmpty if something is in it
     * @throws TerraceException if it fails
     */
    public void removeDirectory(String path) throws TerraceException {
        calls.removeDirectory(store, Keys.encode(path));
    }

    /**
     * Renames a file, a symbolic link or a directory by one commit.
     *
     * @param from the path
     * @param to the new path, in a directory that is there
     * @param replace whether a file there is replaced by a file, and an empty directory by a directory
     * @throws TerraceException.Exists if something has the new path and is not to be replaced
     * @throws TerraceException if it fails
     */
    public void rename(String from, String to, boolean replace) throws TerraceException {
        calls.rename(store, Keys.encode(from), Keys.encode(to), replace);
    }

    /**
     * Changes the permission bits.
     *
     * @param path the path
     * @param mode the bits, such as {@code 0644}
     * @throws TerraceException if it fails
     */
    public void setMode(String path, int mode) throws TerraceException {
        calls.set(store, Keys.encode(path), mode, KEPT_ATTRIBUTE, KEPT_ATTRIBUTE);
    }

    /**
     * Changes the times.
     *
     * @param path the path
     * @param modified the time of the last change; null leaves it as it is
     * @param accessed the time of the last read; null leaves it as it is
     * @throws TerraceException if it fails
     */
    public void setTimes(String path, Instant modified, Instant accessed) throws TerraceException {
        calls.set(store, Keys.encode(path), KEPT_ATTRIBUTE, nanos(modified), nanos(accessed));
    }

    private static long nanos(Instant time) {
        return time == null ? KEPT_ATTRIBUTE : Times.nanos(time);
    }

    /**
     * Returns the total space of the store's tiers.
     *
     * @return the bytes
     * @throws TerraceException if it fails
     */
    public long totalSpace() throws TerraceException {
        return calls.space(store)[0];
    }

    /**
     * Returns the free space of the store's tiers.
     *
     * @return the bytes
     * @throws TerraceException if it fails
     */
    public long freeSpace() throws TerraceException {
        return calls.space(store)[1];
    }
}
