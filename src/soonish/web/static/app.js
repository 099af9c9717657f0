// The console comes complete from the server; this makes it live and quick to the hand.
import "./copy.js";
import "./dialogs.js";
import "./forms.js";
import "./keys.js";
import "./live.js";
import "./theme.js";
import "./times.js";
import "./toasts.js";
