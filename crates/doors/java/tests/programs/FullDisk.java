import io.terrace.Store;
import io.terrace.TerraceException;
import java.nio.file.Path;

/** Prints the message of a put for which there is no room. */
final class FullDisk {
    public static void main(String[] arguments) throws Exception {
        try (Store store = Store.open(Path.of(arguments[0]))) {
            store.put("large", new byte[Integer.parseInt(arguments[1])]);
        } catch (TerraceException.NoSpace error) {
            System.out.println(error.getMessage());
        }
    }
}
