import io.terrace.Ack;
import io.terrace.Requirements;
import io.terrace.Store;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;

/** Puts objects durably by two threads until it is killed, and prints the key of each one that is acknowledged. */
final class DurablePuts {
    public static void main(String[] arguments) throws Exception {
        Store store = Store.open(Path.of(arguments[0]), Requirements.NONE.ack(Ack.DURABLE));
        Thread other = new Thread(() -> putAll(store, arguments[1] + "/b"));
        other.start();
        putAll(store, arguments[1] + "/a");
    }

    private static void putAll(Store store, String prefix) {
        try {
            for (int number = 0; ; number++) {
                byte[] bytes = new byte[number * 1000];
                Arrays.fill(bytes, (byte) number);
                ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
                store.put(prefix + number, direct, Requirements.NONE);
                System.out.println(prefix + number);
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
