import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/** A stand-in for MongoDB that speaks its protocol and keeps documents in memory: one argument, the port. */
public class MongoMain {
    public static void main(String[] arguments) {
        new MongoServer(new MemoryBackend()).bind("127.0.0.1", Integer.parseInt(arguments[0]));
    }
}
