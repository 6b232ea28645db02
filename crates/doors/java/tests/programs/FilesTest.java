import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.terrace.FileStat;
import io.terrace.Store;
import io.terrace.StoreFile;
import io.terrace.StoreFiles;
import io.terrace.StoredObject;
import io.terrace.TerraceException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Uses the objects of a store as files. */
final class FilesTest {
    @TempDir Path folder;
    private Store store;
    private StoreFiles files;

    @BeforeEach
    void open() throws Exception {
        Path configuration = folder.resolve("store.toml");
        String tier = "[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['%s']\n";
        Files.writeString(configuration, String.format(tier, folder.resolve("disk")));
        Store.init(folder.resolve("store"), configuration);
        store = Store.open(folder.resolve("store"));
        files = store.files();
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private static ByteBuffer direct(String text) {
        ByteBuffer bytes = bytes(text);
        return ByteBuffer.allocateDirect(bytes.remaining()).put(bytes).flip();
    }

    private String text(String key) throws Exception {
        return new String(store.get(key), StandardCharsets.UTF_8);
    }

    @Test
    void bytesAreWrittenReadAppendedAndCut() throws Exception {
        try (StoreFile file = files.createNew("a", 0640)) {
            file.write(0, bytes("first words"));
            file.write(6, direct("bytes"));
            file.append(bytes(" more"));
            ByteBuffer into = ByteBuffer.allocateDirect(100);
            assertEquals(16, file.read(0, into));
            assertEquals("first bytes more", StandardCharsets.UTF_8.decode(into.flip()).toString());
            assertEquals(0, file.read(16, ByteBuffer.allocate(1)));
            assertEquals(16, file.length());
            file.flush();
            assertEquals("first bytes more", text("a"));
            file.setLength(5);
            file.sync();
        }
        assertEquals("first", text("a"));
        assertEquals(0640, files.stat("a").mode());
    }

    @Test
    void directoriesHaveEntries() throws Exception {
        files.makeDirectory("d", 0700);
        files.makeDirectory("d/e", 0755);
        store.put("d/\udcff", new byte[7]);
        List<FileStat> entries = files.list("d");
        assertEquals("e \udcff", entries.stream().map(FileStat::name).sorted().collect(Collectors.joining(" ")));
        assertTrue(files.stat("d/e").isDirectory());
        assertEquals(StoredObject.Kind.FILE, files.stat("d/\udcff").kind());
        assertThrows(TerraceException.NotEmpty.class, () -> files.removeDirectory("d"));
        files.remove("d/\udcff");
        files.removeDirectory("d/e");
        files.removeDirectory("d");
        assertEquals(List.of(), files.list(""));
    }

    @Test
    void namesAndAttributesChange() throws Exception {
        store.put("a", new byte[1]);
        store.put("b", new byte[2]);
        assertThrows(TerraceException.Exists.class, () -> files.rename("a", "b", false));
        files.rename("a", "b", true);
        assertEquals(1, files.stat("b").length());
        files.setMode("b", 0600);
        Instant time = Instant.parse("1969-07-20T20:17:40.5Z");
        files.setTimes("b", time, null);
        FileStat stat = files.stat("b");
        assertEquals(time, stat.modified());
        assertEquals(0600, stat.mode());
        files.setTimes("b", null, Instant.EPOCH);
        assertEquals(time, files.stat("b").modified());
        assertEquals(Instant.EPOCH, files.stat("b").accessed());
    }

    @Test
    void failuresHaveTheirKinds() throws Exception {
        store.put("file", new byte[1]);
        files.makeDirectory("d", 0755);
        assertThrows(TerraceException.NotFound.class, () -> files.open("none"));
        assertThrows(TerraceException.NotFound.class, () -> files.create("none/a", 0644));
        assertThrows(TerraceException.NotDirectory.class, () -> files.create("file/a", 0644));
        assertThrows(TerraceException.IsDirectory.class, () -> files.open("d"));
        assertThrows(TerraceException.Exists.class, () -> files.createNew("file", 0644));
        assertThrows(TerraceException.NotDirectory.class, () -> files.list("file"));
        assertThrows(TerraceException.BadKey.class, () -> files.makeDirectory(".terrace/a", 0755));
        assertThrows(IllegalArgumentException.class, () -> files.open("file").read(-1, ByteBuffer.allocate(1)));
        assertThrows(TerraceException.TooLarge.class, () -> files.open("file").write(Long.MAX_VALUE, bytes("a")));
    }

    @Test
    void openFilesAreClosedWithTheirStore() throws Exception {
        StoreFile file = files.createNew("a", 0644);
        file.write(0, bytes("buffered"));
        StoreFile closed = files.createNew("b", 0644);
        closed.close();
        closed.close();
        assertThrows(IllegalStateException.class, closed::length);
        store.close();
        assertThrows(IllegalStateException.class, () -> file.write(0, bytes("more")));
        assertThrows(IllegalStateException.class, () -> files.list(""));
        file.close();
        try (Store again = Store.open(folder.resolve("store"))) {
            assertEquals("buffered", new String(again.get("a"), StandardCharsets.UTF_8));
        }
    }

    @Test
    void aStoreHasSpace() throws Exception {
        assertTrue(files.freeSpace() > 0 && files.totalSpace() >= files.freeSpace());
        assertFalse(files.stat("").modified().isBefore(Instant.EPOCH));
    }
}
