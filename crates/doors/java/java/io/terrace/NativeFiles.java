package io.terrace;

/** The calls of the native library for a store's files, by their paths. */
final class NativeFiles {
    /** Its store is not closed while this object is in use. */
    final Native store;

    NativeFiles(Native store) {
        this.store = store;
    }

    native long open(long store, byte[] path) throws TerraceException;

    native long create(long store, byte[] path, int mode, boolean isNew) throws TerraceException;

    native long[] stat(long store, byte[] path) throws TerraceException;

    native Object[] list(long store, byte[] path) throws TerraceException;

    native void makeDirectory(long store, byte[] path, int mode) throws TerraceException;

    native void remove(long store, byte[] path) throws TerraceException;

    native void removeDirectory(long store, byte[] path) throws TerraceException;

    native void rename(long store, byte[] from, byte[] to, boolean replace) throws TerraceException;

    native void set(long store, byte[] path, long mode, long modified, long accessed) throws TerraceException;

    native long[] space(long store) throws TerraceException;
}
