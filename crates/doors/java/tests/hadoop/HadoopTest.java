import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.terrace.Store;
import io.terrace.StoreFile;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Uses the store that the environment names through Hadoop, and in other ways. */
final class HadoopTest {
    private static final byte[] SOME_BYTES = "some bytes".getBytes(StandardCharsets.UTF_8);

    @TempDir java.nio.file.Path folder;
    private FileSystem system;

    @BeforeEach
    void open() throws Exception {
        system = FileSystem.newInstance(URI.create("terrace:///"), new Configuration());
    }

    @AfterEach
    void close() throws Exception {
        system.close();
    }

    private Store store() throws Exception {
        return Store.open(java.nio.file.Path.of(System.getenv("TERRACE_STORE")));
    }

    private void write(FileSystem system, String path) throws IOException {
        try (FSDataOutputStream out = system.create(new Path(path))) {
            out.write(SOME_BYTES);
        }
    }

    private static byte[] read(FileSystem system, String path) throws IOException {
        try (FSDataInputStream in = system.open(new Path(path))) {
            return in.readAllBytes();
        }
    }

    @Test
    void objectsAreFiles() throws Exception {
        try (Store store = store()) {
            store.put("put/below/a", SOME_BYTES);
            assertEquals("some bytes", new String(read(system, "/put/below/a"), StandardCharsets.UTF_8));
            assertTrue(system.getFileStatus(new Path("/put/below")).isDirectory());
            write(system, "/written/b");
            assertEquals("some bytes", new String(store.get("written/b"), StandardCharsets.UTF_8));
            try (StoreFile file = store.files().open("written/b")) {
                file.append(ByteBuffer.wrap(SOME_BYTES));
            }
            assertEquals(20, system.getFileStatus(new Path("/written/b")).getLen());
        }
    }

    @Test
    void flushedBytesAreSeenAndOthersAreNot() throws Exception {
        try (Store store = store();
                FSDataOutputStream out = system.create(new Path("/flushed"))) {
            out.write(SOME_BYTES);
            assertEquals(0, store.get("flushed").length);
            out.hflush();
            assertEquals(10, store.get("flushed").length);
            out.write(SOME_BYTES);
            out.hsync();
            assertEquals(20, store.get("flushed").length);
            assertTrue(out.hasCapability("hsync"));
        }
    }

    @Test
    void appendsOfTwoWritersLoseNothing() throws Exception {
        write(system, "/log");
        try (FSDataOutputStream one = system.append(new Path("/log"));
                FSDataOutputStream other = system.append(new Path("/log"))) {
            for (int line = 0; line < 100; line++) {
                FSDataOutputStream out = line % 2 == 0 ? one : other;
                out.write(SOME_BYTES);
                out.hflush();
            }
        }
        assertEquals(1010, system.getFileStatus(new Path("/log")).getLen());
    }

    @Test
    void contextsUseTheSameFiles() throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("fs.AbstractFileSystem.terrace.impl", "io.terrace.hadoop.TerraceFs");
        FileContext context = FileContext.getFileContext(URI.create("terrace:///"), configuration);
        Path path = new Path("/context/a");
        EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE);
        try (FSDataOutputStream out = context.create(path, flags, Options.CreateOpts.createParent())) {
            out.write(SOME_BYTES);
        }
        assertEquals(10, read(system, "/context/a").length);
        context.rename(path, new Path("/context/b"));
        assertFalse(system.exists(path));
        assertTrue(context.delete(new Path("/context"), true));
    }

    @Test
    void storesHaveNames() throws Exception {
        java.nio.file.Path configurationFile = folder.resolve("store.toml");
        String tier = "[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['%s']\n";
        Files.writeString(configurationFile, String.format(tier, folder.resolve("disk")));
        Store.init(folder.resolve("second"), configurationFile);
        Configuration configuration = new Configuration();
        configuration.set("fs.terrace.store.second", folder.resolve("second").toString());
        configuration.set("fs.terrace.ack", "durable");
        try (FileSystem second = FileSystem.newInstance(URI.create("terrace://second/"), configuration)) {
            write(second, "/only-there");
            assertEquals(URI.create("terrace://second/only-there"), second.listStatus(new Path("/"))[0].getPath().toUri());
            assertFalse(system.exists(new Path("/only-there")));
            assertThrows(IllegalArgumentException.class, () -> system.exists(new Path("terrace://second/only-there")));
        }
        URI unknown = URI.create("terrace://third/");
        IOException error = assertThrows(IOException.class, () -> FileSystem.newInstance(unknown, configuration));
        assertTrue(error.getMessage().contains("fs.terrace.store.third"), error.getMessage());
    }

    @Test
    void filesBelongToTheirWriterAndTakeSpace() throws Exception {
        write(system, "/mine");
        String user = UserGroupInformation.getCurrentUser().getShortUserName();
        assertEquals(user, system.getFileStatus(new Path("/mine")).getOwner());
        FsStatus space = system.getStatus();
        assertTrue(space.getRemaining() > 0 && space.getUsed() >= 0 && space.getCapacity() > space.getUsed());
    }

    @Test
    void filesAreCut() throws Exception {
        write(system, "/cut");
        assertTrue(system.truncate(new Path("/cut"), 4));
        assertEquals("some", new String(read(system, "/cut"), StandardCharsets.UTF_8));
        assertThrows(IllegalArgumentException.class, () -> system.truncate(new Path("/cut"), 5));
        assertThrows(FileNotFoundException.class, () -> system.truncate(new Path("/none"), 0));
    }

    @Test
    void filesAreNotJoined() throws Exception {
        write(system, "/first");
        write(system, "/second");
        Path[] others = {new Path("/second")};
        assertThrows(UnsupportedOperationException.class, () -> system.concat(new Path("/first"), others));
        assertEquals(10, read(system, "/first").length);
        assertEquals(10, read(system, "/second").length);
    }

    @Test
    void manyPathsAreDeletedAtOnce() throws Exception {
        List<Path> paths = new ArrayList<>();
        for (int number = 0; number < 1000; number++) {
            paths.add(new Path("/many/" + number));
        }
        for (Path path : paths.subList(0, 997)) {
            system.create(path).close();
        }
        write(system, "/many/997/below");
        write(system, "/many/998/below");
        paths.set(999, new Path("/many/998/below"));
        try (BulkDelete delete = system.createBulkDelete(new Path("/many"))) {
            assertEquals(1000, delete.pageSize());
            List<Map.Entry<Path, String>> left = delete.bulkDelete(paths);
            assertEquals(List.of(new Path("/many/997")), left.stream().map(Map.Entry::getKey).collect(Collectors.toList()));
            assertEquals(1, system.listStatus(new Path("/many")).length);
            paths.add(new Path("/many/more"));
            assertThrows(IllegalArgumentException.class, () -> delete.bulkDelete(paths));
        }
    }

    @Test
    void closedStreamsAreRefused() throws Exception {
        FSDataOutputStream out = system.create(new Path("/closed"));
        out.close();
        out.close();
        assertThrows(IOException.class, () -> out.write(1));
        FSDataInputStream in = system.open(new Path("/closed"));
        system.close();
        assertThrows(Exception.class, () -> in.read());
        in.close();
    }
}
