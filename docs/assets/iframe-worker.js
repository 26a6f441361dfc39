/* Searching in pages that are read from files. Browsers start no worker there, so its script runs in a hidden frame;
   messages go to and fro as a worker's do. The name is the one by which the theme knows that such a script is there. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const script = new URL(url, location.href).href.replace(/"/g, "%22");
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>postMessage = data => frameElement.answer(data)</script><script src="${script}"></script>`;
      frame.answer = data => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.onload = () => {
        this.window = frame.contentWindow;
        this.waiting.splice(0).forEach(data => this.postMessage(data));
      };
      this.terminate = () => frame.remove();
      document.body ? document.body.append(frame) : addEventListener("DOMContentLoaded", () => document.body.append(frame));
    }

    postMessage(data) {
      if (this.window) this.window.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }
  };
}
