import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBRequestHandler;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBServerHandler;
import software.amazon.dynamodb.services.local.shared.access.AmazonDynamoDBLocal;

/**
 * DynamoDB Local, whose streams can be told what takes AWS hours: GET /rollover closes each open shard and opens a
 * child of it, GET /age?MILLISECONDS makes records older. Arguments: its port, the port for that, a directory.
 */
public class DynamoMain {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        var requests = new LocalDynamoDBRequestHandler(0, false, arguments[2], true, false);
        var find = LocalDynamoDBRequestHandler.class.getDeclaredMethod("getHandler", String.class);
        find.setAccessible(true);
        var database = (AmazonDynamoDBLocal) find.invoke(requests, "shared");

        var here = InetAddress.getLoopbackAddress();
        var control = HttpServer.create(new InetSocketAddress(here, Integer.parseInt(arguments[1])), 0);
        control.createContext("/rollover", exchange -> {
            database.triggerShardRollovers();
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        control.createContext("/age", exchange -> {
            database.dilateEventTimes(Long.parseLong(exchange.getRequestURI().getQuery()));
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        control.start();
        new DynamoDBProxyServer(port, new LocalDynamoDBServerHandler(requests, null)).start();
    }
}
