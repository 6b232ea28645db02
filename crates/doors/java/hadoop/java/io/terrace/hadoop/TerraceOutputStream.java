package io.terrace.hadoop;

import io.terrace.StoreFile;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.impl.StoreImplementationUtils;

/** Writes a file. */
final class TerraceOutputStream extends BufferedOutputStream implements Syncable, StreamCapabilities {
    private final StoreFile file;
    private boolean isClosed;

    private TerraceOutputStream(StoreFile file, OutputStream bytes, int bufferBytes) {
        super(bytes, bufferBytes);
        this.file = file;
    }

    /** Writes a file from its first byte on. */
    static TerraceOutputStream atStart(StoreFile file, int bufferBytes) {
        return new TerraceOutputStream(file, new OfFile() {
            private long position;

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                file.write(position, ByteBuffer.wrap(bytes, offset, length));
                position += length;
            }
        }, bufferBytes);
    }

    /** Writes behind a file's last byte, wherever that is when the bytes reach the store. */
    static TerraceOutputStream atEnd(StoreFile file, int bufferBytes) {
        return new TerraceOutputStream(file, new OfFile() {
            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                file.append(ByteBuffer.wrap(bytes, offset, length));
            }
        }, bufferBytes);
    }

    /** Takes what the buffer has. */
    private abstract static class OfFile extends OutputStream {
        @Override
        public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
        }
    }

    private void checkOpen() throws IOException {
        if (isClosed) {
            throw new IOException(FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }

    @Override
    public synchronized void write(int value) throws IOException {
        checkOpen();
        super.write(value);
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int length) throws IOException {
        checkOpen();
        super.write(bytes, offset, length);
    }

    @Override
    public synchronized void hflush() throws IOException {
        checkOpen();
        flush();
        file.flush();
    }

    @Override
    public synchronized void hsync() throws IOException {
        checkOpen();
        flush();
        file.sync();
    }

    @Override
    public boolean hasCapability(String capability) {
        return StoreImplementationUtils.isProbeForSyncable(capability);
    }

    @Override
    public synchronized void close() throws IOException {
        if (isClosed) {
            return;
        }
        isClosed = true;
        try {
            flush();
        } finally {
            file.close();
        }
    }
}
