// Uses java.nio on a folder, and checks each answer.
import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.FileChannel;
import java.nio.channels.NonWritableChannelException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public class Nio {
    static void must(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void channels(Path folder) throws Exception {
        Path path = folder.resolve("channel");
        byte[] bytes = new byte[300_000];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) (at * 7 >> 3);
        }
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length).put(bytes);
            direct.flip();
            must(channel.write(direct) == bytes.length && channel.size() == bytes.length && channel.position() == bytes.length, "write");
            must(channel.write(new ByteBuffer[] {ByteBuffer.wrap(bytes, 0, 10), ByteBuffer.wrap(bytes, 10, 20)}) == 30, "gather");
            ByteBuffer part = ByteBuffer.allocate(1000);
            must(channel.read(part, 5000) == 1000 && Arrays.equals(part.array(), Arrays.copyOfRange(bytes, 5000, 6000)), "read at");
            must(channel.truncate(bytes.length).size() == bytes.length, "truncate");
            channel.force(true);
            // A file that is mapped to be read must have been opened to be read only, and `transferFrom` maps.
            try (FileChannel other = FileChannel.open(folder.resolve("copied"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                    FileChannel reader = FileChannel.open(path)) {
                must(channel.transferTo(0, bytes.length, other) == bytes.length, "transferTo");
                must(other.transferFrom(reader, bytes.length, 100) == 100, "transferFrom");
            }
            must(channel.tryLock(0, 10, false) != null, "lock");
        }
        must(Files.size(folder.resolve("copied")) == bytes.length + 100, "copied");
        try (FileChannel channel = FileChannel.open(path)) {
            ByteBuffer mapped = channel.map(FileChannel.MapMode.READ_ONLY, 4000, 200_000);
            must(mapped.get(100) == bytes[4100] && mapped.remaining() == 200_000, "map");
            boolean refused = false;
            try {
                channel.write(ByteBuffer.wrap(bytes));
            } catch (NonWritableChannelException error) {
                refused = true;
            }
            must(refused, "a channel to read was written");
        }
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            file.seek(100);
            file.writeInt(42);
            file.seek(100);
            must(file.readInt() == 42, "random access");
            ByteBuffer mapped = file.getChannel().map(FileChannel.MapMode.PRIVATE, 0, 200);
            mapped.put(0, (byte) 99);
            file.seek(0);
            must(file.readByte() == bytes[0], "private");
        }
        try (AsynchronousFileChannel channel = AsynchronousFileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            must(channel.write(ByteBuffer.wrap("async".getBytes()), 1000).get() == 5, "async write");
            ByteBuffer part = ByteBuffer.allocate(5);
            must(channel.read(part, 1000).get() == 5 && new String(part.array()).equals("async"), "async read");
        }
    }

    static void names(Path folder) throws Exception {
        Path deep = Files.createDirectories(folder.resolve("a/b/c"));
        Path text = Files.writeString(deep.resolve("text"), "one\ntwo\n");
        Files.write(text, List.of("three"), StandardOpenOption.APPEND);
        must(Files.readAllLines(text).equals(List.of("one", "two", "three")), "lines");
        Files.copy(text, folder.resolve("text"), StandardCopyOption.COPY_ATTRIBUTES);
        must(Files.mismatch(text, folder.resolve("text")) == -1, "copy");
        boolean exists = false;
        try {
            Files.copy(text, folder.resolve("text"));
        } catch (FileAlreadyExistsException error) {
            exists = true;
        }
        must(exists, "a file was replaced");
        Files.move(folder.resolve("text"), folder.resolve("a/moved"), StandardCopyOption.ATOMIC_MOVE);
        Files.createSymbolicLink(folder.resolve("link"), Path.of("a/moved"));
        must(Files.isSymbolicLink(folder.resolve("link")) && Files.isSameFile(folder.resolve("link"), folder.resolve("a/moved")), "link");
        must(folder.resolve("link").toRealPath().equals(folder.resolve("a/moved")), "real path");
        Files.setPosixFilePermissions(text, PosixFilePermissions.fromString("rw-r-----"));
        Files.setLastModifiedTime(text, FileTime.fromMillis(1_000_000_000_123L));
        must(PosixFilePermissions.toString(Files.getPosixFilePermissions(text)).equals("rw-r-----"), "permissions");
        must(Files.getLastModifiedTime(text).toMillis() == 1_000_000_000_123L, "times");
        must(Files.getFileStore(text).getUsableSpace() > 0, "space");
        List<String> found = new ArrayList<>();
        try (Stream<Path> walk = Files.walk(folder)) {
            found.addAll(walk.map(path -> folder.relativize(path).toString()).sorted().collect(Collectors.toList()));
        }
        must(found.containsAll(List.of("a/b/c/text", "a/moved", "channel", "copied", "link")), found.toString());
        try (DirectoryStream<Path> listed = Files.newDirectoryStream(folder, "c*")) {
            for (Path path : listed) {
                Files.delete(path);
            }
        }
        boolean missing = false;
        try {
            Files.size(folder.resolve("channel"));
        } catch (NoSuchFileException error) {
            missing = true;
        }
        must(missing && new File(folder.toFile(), "a").list().length == 2, "deleted");
        Path temporary = Files.createTempFile(folder, "t", ".tmp");
        Files.delete(temporary);
    }

    static void children(Path folder) throws Exception {
        File printed = folder.resolve("printed").toFile();
        must(new ProcessBuilder("echo", "by a child").redirectOutput(printed).start().waitFor() == 0, "a child");
        Process reader = new ProcessBuilder("cat").redirectInput(printed).start();
        must(new String(reader.getInputStream().readAllBytes()).equals("by a child\n") && reader.waitFor() == 0, "a child that reads");
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        channels(folder);
        names(folder);
        children(folder);
        try (Stream<Path> walk = Files.walk(folder.resolve("a"))) {
            walk.sorted((one, other) -> other.compareTo(one)).forEach(path -> path.toFile().delete());
        }
        Files.delete(folder.resolve("link"));
        System.out.println("done");
    }
}
