import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.terrace.Ack;
import io.terrace.Receipt;
import io.terrace.Requirement;
import io.terrace.Requirements;
import io.terrace.Store;
import io.terrace.StoreFile;
import io.terrace.StoredObject;
import io.terrace.TerraceException;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Uses stores as a program does. */
final class StoreTest {
    private static final int[] LENGTHS = {0, 1, 4096, 3 << 20};

    @TempDir Path folder;
    private Path directory;
    private Store store;

    @BeforeEach
    void open() throws Exception {
        directory = make("store");
        store = Store.open(directory);
    }

    @AfterEach
    void close() throws Exception {
        store.close();
    }

    /** Makes a store with a tier of memory and one of a disk. */
    private Path make(String name) throws Exception {
        String tier = "[[tier]]\nname = '%s'\nkind = 'directory'\ntargets = ['%s']\npersistent = %s\n";
        String tiers = String.format(tier, "ram", folder.resolve(name + "-ram"), false)
                + String.format(tier, "disk", folder.resolve(name + "-disk"), true);
        Path configuration = folder.resolve(name + ".toml");
        Files.writeString(configuration, "[store]\nreplicas = { min = 1, max = 2, default = 2 }\n" + tiers);
        Store.init(folder.resolve(name), configuration);
        return folder.resolve(name);
    }

    private static byte[] noise(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    private static ByteBuffer direct(byte[] bytes) {
        return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
    }

    /** Runs the command on the store. */
    private String terrace(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getenv("TERRACE_PROGRAM")));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("TERRACE_STORE", directory.toString());
        Process process = builder.start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return said;
    }

    @Test
    void bytesComeBackFromArraysAndBuffers() throws Exception {
        for (int length : LENGTHS) {
            byte[] bytes = noise(length);
            assertEquals(length, store.put("array", bytes).bytes());
            store.put("direct", direct(bytes), Requirements.NONE);
            store.put("read-only", ByteBuffer.wrap(bytes).asReadOnlyBuffer(), Requirements.NONE);
            store.put("read-only-direct", direct(bytes).asReadOnlyBuffer(), Requirements.NONE);
            for (String key : List.of("array", "direct", "read-only", "read-only-direct")) {
                assertArrayEquals(bytes, store.get(key), key + " of " + length);
                ByteBuffer buffer = ByteBuffer.allocateDirect(length + 10);
                assertEquals(length, store.read(key, 0, buffer));
                assertEquals(length, buffer.position());
                byte[] read = new byte[length];
                buffer.flip().get(read);
                assertArrayEquals(bytes, read, key + " of " + length);
            }
        }
    }

    @Test
    void filesOfAnOriginAreReadAndNotChanged() throws Exception {
        byte[] bytes = noise(1 << 20);
        Path far = Files.createDirectories(folder.resolve("far/b")).getParent();
        Files.write(far.resolve("a"), bytes);
        Files.writeString(far.resolve("b/c"), "words");
        terrace("origin", "add", "data/far", far.toString());
        assertEquals(List.of("data/far/a", "data/far/b/c"), store.list("data", "", 100).stream()
                .filter(object -> object.kind() == StoredObject.Kind.FILE).map(StoredObject::key).collect(Collectors.toList()));
        assertArrayEquals(Arrays.copyOfRange(bytes, 500_000, 500_100), store.get("data/far/a", 500_000, 500_100));
        assertArrayEquals(bytes, store.get("data/far/a"));
        try (StoreFile file = store.files().open("data/far/b/c")) {
            ByteBuffer into = ByteBuffer.allocate(10);
            assertEquals(5, file.read(0, into));
            assertEquals("words", text(into.flip()));
            assertReadOnly(() -> file.write(0, ByteBuffer.allocate(1)));
        }
        assertReadOnly(() -> store.writeAt("data/far/a", 0, bytes));
        assertReadOnly(() -> store.remove("data/far/a"));
        assertReadOnly(() -> store.files().create("data/far/new", 0644));
        assertReadOnly(() -> store.files().rename("data/far/a", "elsewhere", false));
        assertArrayEquals(bytes, Files.readAllBytes(far.resolve("a")));
    }

    private static void assertReadOnly(Executable change) {
        String said = assertThrows(TerraceException.class, change).getMessage();
        assertTrue(said.contains("read-only"), said);
    }

    @Test
    void onlyTheRemainingBytesOfBuffersAreUsed() throws Exception {
        byte[] bytes = "0123456789".getBytes(StandardCharsets.UTF_8);
        ByteBuffer sliced = direct(bytes).position(2).slice().position(1).limit(6);
        ByteBuffer wrapped = ByteBuffer.wrap(bytes, 2, 8).slice().position(1).limit(6);
        for (ByteBuffer some : List.of(sliced, wrapped)) {
            store.put("some", some, Requirements.NONE);
            assertEquals(0, some.remaining());
            assertEquals("34567", new String(store.get("some"), StandardCharsets.UTF_8));
        }
        for (ByteBuffer into : List.of(direct(bytes), ByteBuffer.wrap(bytes.clone()))) {
            into.position(4).limit(7);
            assertEquals(3, store.read("some", 1, into));
            assertEquals(7, into.position());
            assertEquals("0123456789", text(into.clear()), "only the place of the bytes is written to");
        }
        assertThrows(ReadOnlyBufferException.class, () -> store.read("some", 0, ByteBuffer.allocate(1).asReadOnlyBuffer()));
    }

    private static String text(ByteBuffer buffer) {
        return StandardCharsets.UTF_8.decode(buffer).toString();
    }

    @Test
    void rangesAreReadWrittenAndAppended() throws Exception {
        store.put("range", "some bytes".getBytes(StandardCharsets.UTF_8));
        store.writeAt("range", 5, "words".getBytes(StandardCharsets.UTF_8));
        Receipt appended = store.append("range", "!".getBytes(StandardCharsets.UTF_8));
        assertEquals(10, appended.offset());
        assertEquals("words!", new String(store.get("range", 5, 100), StandardCharsets.UTF_8));
        assertEquals("ome", new String(store.get("range", 1, 4), StandardCharsets.UTF_8));
        assertEquals(0, store.read("range", 11, ByteBuffer.allocateDirect(4)));
        store.writeAt("range", 1 << 20, direct(new byte[] {7}), Requirements.NONE);
        assertEquals((1 << 20) + 1, store.stat("range").length());
        store.append("range", direct(new byte[] {8}), Requirements.NONE);
        assertArrayEquals(new byte[] {0, 7, 8}, store.get("range", (1 << 20) - 1, Long.MAX_VALUE));
    }

    @Test
    void objectsAreListedRenamedCopiedAndRemoved() throws Exception {
        for (int number = 10; number < 35; number++) {
            store.put("runs/" + number, new byte[number]);
        }
        String notUtf8 = "caf\uDCE9/\uD83D\uDE00\u00E9";
        store.put(notUtf8, new byte[1]);
        List<String> keys = new ArrayList<>();
        List<StoredObject> page = store.list("", null, 10);
        while (!page.isEmpty()) {
            keys.addAll(page.stream().map(StoredObject::key).collect(Collectors.toList()));
            page = store.list("", keys.get(keys.size() - 1), 10);
        }
        assertEquals(26, keys.size());
        assertTrue(keys.contains(notUtf8) && keys.contains("runs/34"), keys.toString());
        assertEquals(25, store.list("runs", null, 100).size());

        StoredObject object = store.stat("runs/20");
        assertEquals(20, object.length());
        assertEquals(StoredObject.Kind.FILE, object.kind());
        assertEquals(0644, object.mode());
        assertTrue(object.modified().isAfter(Files.getLastModifiedTime(folder.resolve("store.toml")).toInstant()));
        store.rename("runs/20", "moved");
        assertEquals(object.number(), store.stat("moved").number());
        assertEquals(Optional.empty(), store.find("runs/20"));
        store.copy("moved", "copied");
        store.remove("moved");
        assertEquals(20, store.get("copied").length);
    }

    @Test
    void threadsUseAStoreAtOnce() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(2);
        List<Future<Void>> ended = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            Callable<Void> work = () -> {
                for (int number = 0; number < 50; number++) {
                    byte[] bytes = noise(number * 2000);
                    store.put(name + "/" + number, direct(bytes), Requirements.NONE);
                    assertArrayEquals(bytes, store.get(name + "/" + number));
                    store.append("log", (name + number + "\n").getBytes(StandardCharsets.UTF_8));
                }
                return null;
            };
            ended.add(threads.submit(work));
        }
        for (Future<Void> end : ended) {
            end.get();
        }
        threads.shutdown();
        List<String> lines = new String(store.get("log"), StandardCharsets.UTF_8).lines().collect(Collectors.toList());
        for (String name : List.of("a", "b")) {
            List<String> own = lines.stream().filter(line -> line.startsWith(name)).collect(Collectors.toList());
            for (int number = 0; number < 50; number++) {
                assertEquals(name + number, own.get(number));
            }
        }
        assertEquals(100, lines.size());
    }

    @Test
    void theCommandUsesTheStoreAtTheSameTime() throws Exception {
        byte[] bytes = noise(3 << 20);
        store.put("from/java", bytes);
        Path file = folder.resolve("file");
        String said = terrace("get", "from/java", file.toString());
        assertArrayEquals(bytes, Files.readAllBytes(file), said);
        Files.write(file, noise(5000));
        said = terrace("put", file.toString(), "from/java");
        assertArrayEquals(noise(5000), store.get("from/java"), said);
        said = terrace("locate", "missing");
        Exception missing = assertThrows(TerraceException.NotFound.class, () -> store.get("missing"));
        assertTrue(said.contains(missing.getMessage()), said);
    }

    @Test
    void failuresAreExceptionsOfTheirKind() throws Exception {
        assertThrows(TerraceException.NotFound.class, () -> store.remove("missing"));
        assertThrows(TerraceException.BadKey.class, () -> store.put("a//b", new byte[1]));
        assertThrows(TerraceException.BadKey.class, () -> store.put(".terrace/own", new byte[1]));
        store.put("there", new byte[1]);
        assertThrows(TerraceException.Conflict.class, () -> store.put("there/below", new byte[1]));
        ByteBuffer one = direct(new byte[1]);
        Requirements createNew = Requirements.NONE.createNew();
        assertThrows(TerraceException.Conflict.class, () -> store.put("there", one, createNew));
        assertEquals(1, one.remaining(), "a put that fails uses no bytes");
        assertThrows(TerraceException.TooLarge.class, () -> store.writeAt("there", Long.MAX_VALUE, new byte[2]));
        store.writeAt("sparse", 1L << 32, new byte[1]);
        assertThrows(TerraceException.TooLarge.class, () -> store.get("sparse"));
        assertThrows(TerraceException.BadStore.class, () -> Store.open(folder.resolve("none")));
        assertThrows(TerraceException.BadStore.class, () -> Store.init(directory));
        Path wrong = Files.writeString(folder.resolve("wrong.toml"), "tier = 3");
        assertThrows(TerraceException.BadConfiguration.class, () -> Store.init(folder.resolve("new"), wrong));
        assertThrows(TerraceException.class, () -> Store.init(folder.resolve("new"), folder.resolve("none.toml")));
    }

    @Test
    void wrongArgumentsAreRefused() throws Exception {
        store.put("key", new byte[1]);
        List<Executable> wrong = List.of(
                () -> store.get("key", -1, 4),
                () -> store.get("key", 0, -1),
                () -> store.read("key", -1, ByteBuffer.allocate(1)),
                () -> store.list("", null, -1),
                () -> store.get("half a \uD83D character"),
                () -> ask(Requirements.NONE.replicas(0)),
                () -> ask(Requirements.NONE.replicas(-1)),
                () -> ask(Requirements.NONE.weights("some")),
                () -> ask(Requirements.NONE.budget("much")),
                () -> ask(Requirements.NONE.element("f65")));
        for (int at = 0; at < wrong.size(); at++) {
            assertThrows(IllegalArgumentException.class, wrong.get(at), "number " + at);
        }
        assertThrows(TerraceException.BadConfiguration.class, () -> ask(Requirements.NONE.tiers("none")));
        assertThrows(NullPointerException.class, () -> store.get(null));
        assertThrows(NullPointerException.class, () -> store.put("key", null));
        Store other = Store.open(make("other"));
        Receipt receipt = other.put("key", new byte[1]);
        assertThrows(IllegalArgumentException.class, () -> store.await(receipt, Ack.DURABLE));
        other.close();
    }

    private Receipt ask(Requirements requirements) throws TerraceException {
        return store.put("asked", direct(noise(100_000)), requirements);
    }

    @Test
    void requirementsAreKept() throws Exception {
        for (Requirement requirement : Requirement.values()) {
            ask(Requirements.NONE.require(requirement));
        }
        assertEquals(1, ask(Requirements.NONE.replicas(1)).plannedReplicas());
        assertEquals(2, ask(Requirements.NONE.require(Requirement.MAX_READ_BANDWIDTH, 2)).plannedReplicas());
        ask(Requirements.NONE.tiers("disk").replicas(1));
        String places = store.locate("asked");
        assertTrue(places.contains("\"disk\"") && !places.contains("\"ram\""), places);
        assertTrue(ask(Requirements.NONE.ack(Ack.DURABLE)).isDurable());
        Receipt receipt = ask(Requirements.NONE.ack(Ack.PLACED).weights("archival").element("f64").budget("3x"));
        assertEquals(0, store.await(receipt, Ack.REPLICATED).pendingReplicas());
        ask(Requirements.NONE.weights(0.3, 0.3, 0.4).maxLatency(Duration.ofMillis(100)));
        store.sync();

        try (Store careful = Store.open(directory, Requirements.NONE.replicas(1).ack(Ack.DURABLE))) {
            assertTrue(careful.put("asked", new byte[10]).isDurable());
            assertEquals(1, careful.put("asked", new byte[10]).plannedReplicas());
            Requirements two = Requirements.NONE.replicas(2).ack(Ack.PLACED);
            assertEquals(2, careful.put("asked", direct(new byte[10]), two).plannedReplicas());
        }
    }

    @Test
    void aClosedStoreIsRefused() throws Exception {
        store.put("key", new byte[1]);
        Receipt receipt = store.put("key", new byte[1]);
        store.close();
        store.close();
        List<Executable> calls = List.of(
                () -> store.put("key", new byte[1]),
                () -> store.writeAt("key", 0, new byte[1]),
                () -> store.append("key", new byte[1]),
                () -> store.get("key"),
                () -> store.read("key", 0, ByteBuffer.allocateDirect(1)),
                () -> store.stat("key"),
                () -> store.find("key"),
                () -> store.list("", null, 1),
                () -> store.remove("key"),
                () -> store.rename("key", "other"),
                () -> store.copy("key", "other"),
                () -> store.await(receipt, Ack.DURABLE),
                () -> store.sync(),
                () -> store.locate("key"));
        for (Executable call : calls) {
            assertThrows(IllegalStateException.class, call);
        }
        store = Store.open(directory);
        assertEquals(1, store.get("key").length);
    }

    @Test
    void aStoreIsClosedWhileThreadsUseIt() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(2);
        Store used = store;
        List<Future<Integer>> counts = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            Callable<Integer> work = () -> {
                for (int count = 0; ; count++) {
                    try {
                        used.put(name + count, direct(noise(10_000)), Requirements.NONE);
                    } catch (IllegalStateException closed) {
                        return count;
                    }
                }
            };
            counts.add(threads.submit(work));
        }
        while (used.find("a10").isEmpty() || used.find("b10").isEmpty()) {
            Thread.onSpinWait();
        }
        used.close();
        store = Store.open(directory);
        List<String> names = List.of("a", "b");
        for (int at = 0; at < names.size(); at++) {
            int count = counts.get(at).get();
            assertEquals(10_000, store.get(names.get(at) + (count - 1)).length);
            assertEquals(Optional.empty(), store.find(names.get(at) + count));
        }
        threads.shutdown();
    }

    /** Whether this process has the catalog of a store mapped. */
    private static boolean isOpen(Path directory) throws Exception {
        return Files.readString(Path.of("/proc/self/maps")).contains(directory + "/");
    }

    @Test
    void aLostStoreIsClosed() throws Exception {
        Path lost = make("lost");
        Store.open(lost).put("key", new byte[1]);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (isOpen(lost) && System.nanoTime() < end) {
            System.gc();
            Thread.sleep(10);
        }
        assertTrue(!isOpen(lost), "the store is still open");
        assertTrue(isOpen(directory), "open stores are seen");
    }
}
