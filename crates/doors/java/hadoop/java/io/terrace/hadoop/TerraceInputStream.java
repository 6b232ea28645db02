package io.terrace.hadoop;

import io.terrace.StoreFile;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;

/** Reads a file. */
final class TerraceInputStream extends FSInputStream {
    private static final int END_OF_FILE = -1;

    private final StoreFile file;
    private final FileSystem.Statistics statistics;
    private long position;
    private volatile boolean isClosed;

    TerraceInputStream(StoreFile file, FileSystem.Statistics statistics) {
        this.file = file;
        this.statistics = statistics;
    }

    private void checkOpen() throws IOException {
        if (isClosed) {
            throw new IOException(FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }

    @Override
    public synchronized void seek(long to) throws IOException {
        checkOpen();
        if (to < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
        }
        if (to > file.length()) {
            throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
        }
        position = to;
    }

    @Override
    public synchronized long getPos() {
        return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    @Override
    public synchronized int available() throws IOException {
        checkOpen();
        return (int) Math.min(Math.max(file.length() - position, 0), Integer.MAX_VALUE);
    }

    @Override
    public synchronized int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) == END_OF_FILE ? END_OF_FILE : one[0] & 0xFF;
    }

    @Override
    public synchronized int read(byte[] into, int offset, int length) throws IOException {
        int count = readAt(position, into, offset, length);
        position += Math.max(count, 0);
        return count;
    }

    /** Does not move the position, and may be called by several threads at once. */
    @Override
    public int read(long at, byte[] into, int offset, int length) throws IOException {
        checkOpen();
        validatePositionedReadArgs(at, into, offset, length);
        return readAt(at, into, offset, length);
    }

    private int readAt(long at, byte[] into, int offset, int length) throws IOException {
        checkOpen();
        ByteBuffer wanted = ByteBuffer.wrap(into, offset, length);
        if (length == 0) {
            return 0;
        }
        int count = file.read(at, wanted);
        if (statistics != null) {
            statistics.incrementBytesRead(count);
        }
        return count == 0 ? END_OF_FILE : count;
    }

    @Override
    public void close() throws IOException {
        isClosed = true;
        file.close();
    }
}
